"""``fit_many``: thousands of independent fits through joblib."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from cofem import fitting
from cofem.arguments import flag
from cofem.many.committing import Committer
from cofem.many.disk_stores import open_store
from cofem.many.inputs import (
    check_jobs,
    check_options,
    identity,
    noise_of,
    operator_of,
    problems_of,
)
from cofem.many.layout import FAILED, PENDING, Outcome
from cofem.many.one_by_one import fit_rows
from cofem.many.result import ManyPosteriors, result_of
from cofem.many.stores import Store
from cofem.many.together import fit_together, on_device
from cofem.operators import LinearOperator, as_operator
from cofem.progress import CountProgress

# A chunk of problems takes about this many seconds, and returns at most this many bytes.
CHUNK_SECONDS, CHUNK_BYTES = 2.0, 1 << 26
# Shorter times are below the resolution of the clock.
CLOCK = 1e-6
# Workers that die are replaced; if they die so many times in a row without a result, the run stops.
ATTEMPTS = 3


def fit_many(
    phi: Any,
    Y: Any,
    *,
    n_jobs: int | None = None,
    store: Any = None,
    resume: bool = True,
    progress: bool = False,
    **fit_options: Any,
) -> ManyPosteriors:
    """Fit every row of Y on its own: each has its own α, unlike the tasks of a joint fit.

    Row p of the result is what ``cofem.fit(phi, Y[p], **fit_options)`` gives. The work is
    joblib's: ``with joblib.parallel_config("dask"):`` around the call runs it on a Dask
    cluster. A problem that fails is reported, and the others finish; chunks of a worker that
    dies are done again.

    Parameters
    ----------
    phi : array, sparse array or operator (N, D)
    Y : array (P, N)
        May be memory-mapped: rows are read as they are needed. Tensors in the CPU's memory are
        accepted, here and for phi; the results are always NumPy arrays. Rows on a
        device are fitted together, each with its own prior and noise.
    n_jobs : int, optional
        As in joblib: None is 1 unless a ``parallel_config`` says otherwise, −1 all cores.
    store : path, optional
        Where results go as they come: a path that ends in ``.zarr``, or a folder of
        memory-mapped ``.npy`` files. None: memory.
    resume : bool
        Continue what the store holds of the same phi, Y and options; problems that failed are
        tried again. False: start again, and delete what is there.
    progress : bool
        Show a bar on the error stream, where that is a terminal: problems done, and time left.
    **fit_options
        Those of :func:`cofem.fit`. ``noise_precision`` and ``noise_std`` may also have shape (P,);
        precisions that differ between rows go into ``weights``.

    Returns
    -------
    ManyPosteriors

    Examples
    --------
    >>> import numpy as np, cofem
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.normal(size=(30, 40)) / 5
    >>> Z = np.zeros((3, 40)); Z[[0, 1, 2], [5, 17, 33]] = 2.0
    >>> Y = Z @ phi.T + 0.01 * rng.normal(size=(3, 30))
    >>> many = cofem.fit_many(phi, Y, noise_precision=1e4)
    >>> many
    ManyPosteriors(3 problems × 40 unknowns; 3 converged, 0 failed)
    >>> np.argmax(many.mean, axis=1)
    array([ 5, 17, 33])
    >>> many[1].mean.shape, many[1].converged
    ((40,), True)
    >>> np.flatnonzero(many.support()[1]), np.flatnonzero(many.probability[1] > 0.5)
    (array([17]), array([17]))
    """
    if n_jobs is not None:
        check_jobs(n_jobs)
    flag("progress", progress)
    check_options(fit_options)
    if on_device(Y):
        return fit_together(as_operator(phi), Y, fit_options, store)
    op = operator_of(phi)
    Y = problems_of(Y, op)
    work = _Work(op, Y, noise := noise_of(fit_options, len(Y)), fit_options)
    same = {} if store is None else identity(op, Y, {**fit_options, "noise_precision": noise})
    with open_store(store, same, resume) as target:
        state = target.state(len(Y))
        pending = np.flatnonzero((state == PENDING) | (state == FAILED))
        with CountProgress(len(Y), "problems", shown=progress) as bar:
            _run(work, pending, target, n_jobs, bar)
    return result_of(target, len(Y), fit_options)


# -- the work ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chunk:
    """Problems for one call of a worker.

    A scheduler sends the whole object with the task. An array that is stored on one worker would be
    lost if that worker dies.
    """

    indices: np.ndarray
    Y: np.ndarray
    options: dict[str, Any]
    parent: int


@dataclass(frozen=True)
class _Work:
    op: LinearOperator
    Y: np.ndarray
    noise: Any
    options: dict[str, Any]

    def chunk(self, indices: np.ndarray) -> _Chunk:
        noise = self.noise[indices] if isinstance(self.noise, np.ndarray) else self.noise
        options = {**self.options, "noise_precision": noise}
        return _Chunk(indices, np.array(self.Y[indices]), options, os.getpid())


def _fit_chunk(op: LinearOperator, chunk: _Chunk) -> dict[int, Outcome]:
    if os.getpid() != chunk.parent:
        # The cores are busy with the other workers.
        os.environ.setdefault("COFEM_NUM_THREADS", "1")
    outcomes = fit_rows(op, chunk.Y, chunk.options)
    return dict(zip((int(i) for i in chunk.indices), outcomes, strict=True))


def _run(
    work: _Work, pending: np.ndarray, target: Store, n_jobs: int | None, bar: CountProgress
) -> None:
    if len(pending) == 0:
        return
    committer = Committer(target, len(work.Y), work.op.shape[1], bar)
    bar.update(len(work.Y) - len(pending))
    try:
        seconds = _begin(work, pending, committer)
        for outcomes in _outcomes(work, pending, seconds, committer, n_jobs):
            committer.add(outcomes)
    finally:
        committer.commit()  # after any exception, finished results are kept


def _outcomes(
    work: _Work, pending: np.ndarray, seconds: float, committer: Committer, n_jobs: int | None
) -> Iterator[dict[int, Outcome]]:
    """Yield results as they come, and begin again with what is left when workers die."""
    attempts = 0
    while len(left := committer.left(pending)):
        done = 0
        try:
            for outcomes in _parallel(work, left, seconds, committer.row_bytes, n_jobs):
                done += len(outcomes)
                yield outcomes
        except Exception as error:  # a worker died; errors of fits are results
            attempts = 0 if done else attempts + 1
            if attempts == ATTEMPTS:
                raise RuntimeError(
                    f"the workers failed {ATTEMPTS} times in a row without a result; "
                    f"{len(left)} problems are left ({type(error).__name__}: {error}); "
                    f"{committer.target.keeps} start the cluster again if it is gone, and call "
                    "fit_many with the same arguments"
                ) from error


def _begin(work: _Work, pending: np.ndarray, committer: Committer) -> float:
    """Fit the first problems here: this gives layout and speed, and finds wrong options.

    Returns seconds per fit. The second is timed: the first may compile.
    """
    seconds, well = math.inf, 0
    for index in pending:
        began = time.perf_counter()
        outcomes = _fit_chunk(work.op, work.chunk(np.array([index])))
        seconds = min(seconds, time.perf_counter() - began)
        if outcomes[int(index)].error and well == 0 and committer.nothing:
            _raise_if_nothing_can_be_fitted(work)
        committer.add(outcomes)
        well += not outcomes[int(index)].error
        if well == 2:
            break
    return seconds


def _raise_if_nothing_can_be_fitted(work: _Work) -> None:
    """Fit random numbers; if that raises an error too, the options or phi are wrong: raise it."""
    y = np.random.default_rng(0).normal(size=work.op.shape[0]).astype(work.Y.dtype)
    noise = work.noise[0] if isinstance(work.noise, np.ndarray) else work.noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fitting.ConvergenceWarning)
        fitting.fit(work.op, y, noise_precision=noise, **work.options)


def _parallel(
    work: _Work, left: np.ndarray, seconds: float, row_bytes: int, n_jobs: int | None
) -> Iterator[dict[int, Outcome]]:
    workers = max(1, joblib.effective_n_jobs(n_jobs))
    size = min(
        math.ceil(len(left) / (4 * workers)),  # so that all end at about the same time
        max(1, int(CHUNK_SECONDS / max(seconds, CLOCK))),
        max(1, CHUNK_BYTES // row_bytes),
    )
    chunks = (work.chunk(left[i : i + size]) for i in range(0, len(left), size))
    parallel = joblib.Parallel(
        n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
    )
    results: Iterator[dict[int, Outcome]] = parallel(
        joblib.delayed(_fit_chunk)(work.op, chunk) for chunk in chunks
    )
    return results
