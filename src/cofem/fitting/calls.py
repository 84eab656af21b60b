"""``fit`` and ``posterior``: from data to a posterior in one call."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from functools import partial
from typing import Any

from cofem import backend
from cofem.arguments import flag, tolerance, whole_number
from cofem.backend.distributed import ALONE, Group, TorchGroup
from cofem.files import check_writable
from cofem.fitting.alternatives import ENOUGH, may_be_doubted, with_contradictions
from cofem.fitting.hard_systems import unless_hard
from cofem.fitting.memory import refuse_too_large
from cofem.fitting.outlying import with_rows_named
from cofem.fitting.silent import audible, with_all_rows, with_unseen_named
from cofem.fitting.sparse_bayes import sparse_bayes
from cofem.learning.checkpoint import Checkpoint
from cofem.learning.convergence import ConvergenceWarning
from cofem.learning.cut import cut_at_zero
from cofem.learning.learned import Learned, Settings
from cofem.learning.moments.registry import make_esteps
from cofem.learning.prior_choice import choose_prior, learn
from cofem.learning.recording import Callback, Listener
from cofem.learning.stopping import Verdict
from cofem.model import validation
from cofem.model.choosing import choose_method
from cofem.model.methods import Method
from cofem.model.model import Model
from cofem.result.assembly import asked_for, posterior_of
from cofem.result.posterior import Posterior
from cofem.rivals.registry import RUNNERS, run_method
from cofem.solvers.compiled import interrupts_as_themselves


def fit(
    phi: Any,
    y: Any,
    *,
    noise_precision: Any = None,
    noise_std: Any = None,
    weights: Any = None,
    method: Any = "auto",
    prior: str = "auto",
    intercept: bool = False,
    nonnegative: bool = False,
    real: bool = False,
    groups: Any = None,
    coupling: Any = None,
    sparsifier: Any = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    seed: int = 0,
    callback: Callback | None = None,
    progress: bool = False,
    checkpoint: Any = None,
    process_group: Any = None,
) -> Posterior:
    """Fit a sparse z in y = Φz + noise and return its whole posterior.

    Parameters
    ----------
    phi : array, sparse array, operator, or a list of them
        Φ of shape (N, D): a 2-D array or tensor, a SciPy sparse array, a SciPy or
        PyLops operator, or one of :mod:`cofem.operators`. A list means joint
        tasks that share their prior precisions.
    y : array (N,)
        The data; a list of them for a list of phi, or (L, N) with one phi.
    noise_precision : float or array, optional
        β = 1/σ²: one for all, (L,) for joint tasks, or (N,) for every row of one task, (L, N) of
        joint ones. ``post.noise_precision`` is then their mean. None: learned
        (``docs/noise.md``).
    noise_std : float or array, optional
        σ, in place of ``noise_precision``, in the same shapes.
    weights : array (N,), optional
        Row i has the noise precision β ``weights[i]``: rows whose precisions are known up to a
        factor β, which is learned if ``noise_precision`` is None. (L, N) for joint tasks.
    method : str or method object
        "auto", "cofem", "em", "woodbury", "banded", "amp", "vi", "sequential", or a
        dataclass such as ``cofem.CoFEM(n_probes=20)``.
    prior : {"auto", "mixture", "ard"}
        "mixture": a spike at zero and normal slabs, whose weights are learned for all
        coordinates together. "ard": one precision for every coordinate, sparse Bayesian
        learning as in the paper. "auto": the mixture; if its result does not pass the checks,
        small problems are sampled and others use "ard", as do models that the mixture does
        not support (``docs/prior.md``).
    intercept : bool
        y = Φz + c + noise with a constant c that is not penalised (a flat prior):
        ``post.intercept`` and ``post.intercept_std``; every joint task has its own.
    nonnegative : bool
        z ≥ 0: half-normal slabs under "mixture", a rectified Gaussian posterior under "ard".
    real : bool
        z is real although the data or phi are complex.
    groups : array of int (D,), optional
        Coordinates with equal labels share one prior precision; with a sparsifier,
        rows of R (M,).
    coupling : operator (D, D), optional
        Averages second moments over a neighbourhood before each M-step.
    sparsifier : operator (M, D), optional
        R: not z itself but Rx is sparse, for example the differences of a piecewise constant x.
        The posterior is that of x, and ``precision`` has length M, which may exceed D.
    max_iter : int
        The largest number of iterations.
    tol : float
        How accurately the iterations end. "ard": no coordinate moves by more than 500 ``tol`` of
        its own error bar, those near zero by four times that; "mixture": its two estimates of the
        mean agree to 200 ``tol`` error bars. 0 runs exactly ``max_iter`` iterations
        (``docs/notes/stopping.md``).
    seed : int
        Decides every random number.
    callback : function, optional
        Called with an :class:`~cofem.learning.recording.IterationState` after every
        E-step; returning True stops the fit.
    progress : bool
        Show a progress bar on the terminal.
    checkpoint : path, optional
        A file that is written every ten iterations. If it exists, the fit continues from it and
        gives the same result as an uninterrupted fit. It is not deleted at the end.
    process_group : torch.distributed.ProcessGroup, optional
        Processes that fit this problem together; each makes the same call (``torchrun``).
        They share the linear systems of "cofem" and return the same posterior.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import numpy as np, cofem
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.normal(size=(50, 100)) / 7
    >>> z = np.zeros(100); z[[5, 40, 77]] = [1.0, -2.0, 1.5]
    >>> y = phi @ z + 0.01 * rng.normal(size=50)
    >>> post = cofem.fit(phi, y, noise_precision=1e4)
    >>> np.flatnonzero(post.support(0.9999))
    array([ 5, 40, 77])
    >>> post.mean[[5, 40, 77]].round(1)
    array([ 1. , -2. ,  1.5])
    >>> bool(np.all(post.std[[5, 40, 77]] < 0.02))
    True
    """
    asked = asked_for(locals())  # before any other name is given
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, got {type(callback).__name__}")
    progress = flag("progress", progress)
    began = time.perf_counter()
    max_iter = whole_number("max_iter", max_iter, least=1)
    tol = tolerance(tol)
    seed = whole_number("seed", seed, least=0)
    given = noise_precision is not None or noise_std is not None
    tasks, joint = validation.tasks_from(
        phi, y, noise_precision, noise_std, weights, intercept=intercept, real=real
    )
    model = validation.model_from(tasks, nonnegative, sparsifier, groups, coupling)
    chosen = choose_method(method, model)
    which = choose_prior(prior, chosen, model)
    if which != "ard" and model.sees_nothing:
        if which == "mixture":
            raise ValueError('prior="mixture": phi is zero, so the data say nothing about z')
        which = "ard"
    refuse_too_large(model, chosen)
    group = _group(process_group, chosen)
    with (
        interrupts_as_themselves(),
        backend.few_blas_threads(_largest_matrix(model)),
        _watched(callback, progress) as watch,
    ):
        kept = None
        if checkpoint is not None:
            kept = _checkpoint(checkpoint, model, chosen, seed, which)
            kept.agree(group)
            began -= kept.seconds
        settings = Settings(
            chosen, seed, max_iter, tol, watch and Listener(watch), kept, group,
            may_sample=not joint and tol > 0 and max_iter >= ENOUGH,
        )  # fmt: skip
        spent = time.perf_counter() - began - (0.0 if kept is None else kept.seconds)
        heard, gone = (model, 0) if given or group is not ALONE else audible(model, chosen)
        run = sparse_bayes if which == "ard" else partial(learn, prior=which)
        learned = unless_hard(partial(run, heard, given=given), heard, settings)
        learned = with_unseen_named(with_all_rows(learned, tasks, gone) if gone else learned)
        found = learned.outcome.found
        found.history["seconds"] = [s + spent for s in found.history["seconds"]]
        post = posterior_of(learned, chosen, joint, asked)
        if which != "ard" and not gone and may_be_doubted(phi):
            noise = noise_precision, noise_std, weights
            read = partial(validation.tasks_from, phi, y, *noise, intercept=True, real=real)
            post = with_contradictions(post, learned, read, given, settings)
        post, far_away = with_rows_named(post, learned, heard, phi)
        found.history["seconds"][-1] = time.perf_counter() - began
    if said := post.message if found.warning else far_away:
        warnings.warn(said, found.warning or UserWarning, stacklevel=2)
    return post


def posterior(
    phi: Any,
    y: Any,
    *,
    precision: Any,
    noise_precision: Any = None,
    noise_std: Any = None,
    weights: Any = None,
    method: Any = "auto",
    intercept: bool = False,
    nonnegative: bool = False,
    real: bool = False,
    sparsifier: Any = None,
    seed: int = 0,
) -> Posterior:
    """Return the posterior for known hyperparameters: nothing is learned.

    Parameters
    ----------
    phi, y, weights, method, intercept, nonnegative, real, sparsifier, seed
        As for :func:`fit`. z ≥ 0: half-normal priors, except with ``CoFEM.paper()``.
    precision : array (D,)
        α, the prior precision of every coordinate; (M,) with a sparsifier.
    noise_precision, noise_std : float or array
        β, or σ: one of them, as for :func:`fit`.

    Examples
    --------
    >>> import numpy as np, cofem
    >>> post = cofem.posterior(np.eye(2), np.array([1.0, 2.0]), precision=np.ones(2),
    ...                        noise_precision=3.0)
    >>> post.mean, post.variance
    (array([0.75, 1.5 ]), array([0.25, 0.25]))
    """
    asked = asked_for(locals())
    if noise_precision is None and noise_std is None:
        raise ValueError("noise_precision must be given: posterior does not learn it (fit does)")
    seed = whole_number("seed", seed, least=0)
    tasks, joint = validation.tasks_from(
        phi, y, noise_precision, noise_std, weights, intercept=intercept, real=real
    )
    model = validation.model_from(tasks, nonnegative, sparsifier)
    alpha = validation.prior_precision(precision, model.n_precisions, model.like)
    chosen = choose_method(method, model)
    if chosen.name in RUNNERS:
        raise ValueError(
            f'method "{chosen.name}" only learns; for given hyperparameters use "auto", '
            '"cofem", "em", "woodbury" or "banded"'
        )
    refuse_too_large(model, chosen)
    with interrupts_as_themselves(), backend.few_blas_threads(_largest_matrix(model)):
        outcome = run_method(model, chosen, alpha, seed=seed, max_iter=1, tol=0.0)
        outcome.found.verdict = Verdict.GIVEN
        learned = Learned("ard", model, outcome)
        if model.nonnegative and chosen.takes_sites:
            learned = cut_at_zero(model, make_esteps(model, chosen, seed), outcome)
        post = posterior_of(learned, chosen, joint, asked)
    if not post.converged:
        warnings.warn(post.message, ConvergenceWarning, stacklevel=2)
    return post


def _watched(
    callback: Callback | None, progress: bool
) -> contextlib.AbstractContextManager[Callback | None]:
    if not progress:
        return contextlib.nullcontext(callback)
    from cofem.progress import watched  # a terminal's library, which few fits need

    return watched(callback)


def _group(process_group: Any, method: Method) -> Group:
    if process_group is None:
        return ALONE
    if "processes" not in method.takes:
        raise ValueError(
            f'process_group: method "{method.name}" cannot share its work; use "cofem"'
        )
    if getattr(method, "joint_tolerance", False):
        raise ValueError("process_group: with joint_tolerance the systems cannot be shared")
    return TorchGroup(process_group)


def _checkpoint(path: Any, model: Model, method: Method, seed: int, prior: str) -> Checkpoint:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path, got {type(path).__name__}")
    check_writable(path, "checkpoint")
    if not method.resumes:
        raise ValueError(
            f'checkpoint: method "{method.name}" cannot be resumed; use "cofem" or leave it out'
        )
    return Checkpoint(path, model, method, seed, prior=prior)


def _largest_matrix(model: Model) -> int:
    """Return the number of entries of the largest Φ, dense or not."""
    return max(t.operator.shape[0] * t.operator.shape[1] for t in model.tasks)


__all__ = ["ConvergenceWarning", "fit", "posterior"]
