"""Problems of one shape on a device: one large fit whose parts do not touch each other.

A fit of a thousand unknowns leaves a GPU idle; one of ten million keeps it busy. If every
coordinate has a prior precision of its own and the noise is known, P problems with one Φ are one
problem with P copies of Φ side by side: no precision, mean or variance of one problem depends on
another problem. Only the end of conjugate gradients and of learning is common to them. What is
learned for a problem as a whole, its prior and its noise, is learned for each by itself
(:mod:`cofem.many.side_by_side`).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.backend import Array
from cofem.many.committing import COMPONENTS
from cofem.many.copies import Copies
from cofem.many.inputs import noise_of
from cofem.many.layout import Layout, Outcome
from cofem.many.one_by_one import fit_rows
from cofem.many.result import ManyPosteriors, result_of
from cofem.many.side_by_side.outcomes import learned_together
from cofem.many.stores import MemoryStore
from cofem.model.methods import CoFEM
from cofem.operators import LinearOperator

# The most unknowns of one large fit. A larger one only needs more memory: the GPU is already busy.
AT_ONCE = 1 << 24
# Options that couple coordinates, or that belong to one problem, cannot be used in such a fit.
ALLOWED = ("method", "prior", "nonnegative", "max_iter", "tol", "seed")


def on_device(Y: Any) -> bool:
    """Whether these are the rows of an array on a device, where a batch costs as much as one."""
    return (
        backend.is_array(Y)
        and not backend.is_numpy(Y)
        and "cpu" not in str(backend.device_of(Y)).lower()
    )


def fit_together(
    phi: LinearOperator, Y: Array, options: dict[str, Any], store: Any
) -> ManyPosteriors:
    """Fit the rows of Y (P, N), as many at a time as keep a device busy."""
    number = int(Y.shape[0]) if Y.ndim else 0
    noise = noise_of(options, number)  # it is taken out of the options
    _check(phi, Y, options, store)
    plain = options.get("prior", "auto") == "ard"
    target, size = MemoryStore(), max(1, AT_ONCE // phi.shape[1])
    for first in range(0, number, size):
        rows = slice(first, min(first + size, number))
        own = noise[rows] if isinstance(noise, np.ndarray) else noise
        fitted = _fitted if plain and noise is not None else _learned
        outcomes = fitted(phi, Y[rows, :], own, options)
        if target.layout is None:
            kind = next((x.mean.dtype.name for x in outcomes if x.mean is not None), "float64")
            components = 0 if plain else COMPONENTS
            target.create(Layout(number, phi.shape[1], phi.shape[1], kind, components))
        target.write(dict(enumerate(outcomes, start=first)))
    return result_of(target, number, options)


def _learned(phi: LinearOperator, Y: Array, noise: Any, options: dict[str, Any]) -> list[Outcome]:
    """Learn the prior, or the noise for "ard"; one by one where the end is not believed."""
    xp, number = backend.namespace(Y), int(Y.shape[0])
    plain = options.get("prior") == "ard"
    zeros = backend.to_numpy(xp.all(Y == 0, axis=1))
    usable = bool(xp.all(phi.column_norms_squared(Y) > 0)) and number > 1
    together = np.flatnonzero(~zeros) if usable else np.zeros(0, int)
    outcomes: list[Outcome | None] = [None] * number
    if len(together):
        own = noise[together] if isinstance(noise, np.ndarray) else noise
        found = learned_together(
            phi, _rows(Y, together), own, _method(options), int(options.get("seed", 0)),
            int(options.get("max_iter", 100)), float(options.get("tol", 1e-4)),
        )  # fmt: skip
        for i, outcome in zip(together, found, strict=True):
            outcomes[i] = outcome
    if plain:  # the learned prior has only found the noise
        known = [i for i, outcome in enumerate(outcomes) if outcome is not None]
        betas = np.array([o.noise_precision for o in outcomes if o is not None])
        if known:
            fitted = _fitted(phi, _rows(Y, np.array(known)), betas, options)
            for i, outcome in zip(known, fitted, strict=True):
                outcomes[i] = outcome
    left = np.array([i for i, outcome in enumerate(outcomes) if outcome is None], dtype=int)
    own = noise[left] if isinstance(noise, np.ndarray) else noise
    alone = fit_rows(phi, _rows(Y, left), {**options, "noise_precision": own}) if len(left) else []
    for i, outcome in zip(left, alone, strict=True):
        outcomes[i] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _rows(Y: Array, where: np.ndarray) -> Array:
    xp = backend.namespace(Y)
    return xp.take(Y, backend.from_numpy(where, Y), axis=0)


def _method(options: dict[str, Any]) -> CoFEM:
    method: Any = options.get("method", "auto")
    return CoFEM() if isinstance(method, str) else method


def _check(phi: LinearOperator, Y: Array, options: dict[str, Any], store: Any) -> None:
    """Refuse what is not of one problem alone."""
    method = options.get("method", "auto")
    if getattr(method, "name", method) not in ("auto", CoFEM.name):
        raise TypeError(f'method must be "cofem" for rows on a device, got {method!r}')
    if options.get("nonnegative") and options.get("prior") != "ard":
        raise TypeError(
            'nonnegative needs prior="ard" and the noise for rows on a device; or move Y to the '
            "host"
        )
    for name in options:
        if name not in ALLOWED:
            raise TypeError(f"{name} is no option for rows on a device; move Y to the host")
    if store is not None:
        raise TypeError("store is for rows on the host: those on a device are fitted at once")
    if Y.ndim != 2 or Y.shape[1] != phi.shape[0]:
        raise ValueError(
            f"Y must have shape (P, {phi.shape[0]}), one problem in every row, got {tuple(Y.shape)}"
        )


def _fitted(phi: LinearOperator, Y: Array, noise: Any, options: dict[str, Any]) -> list[Outcome]:
    xp, (number, n) = backend.namespace(Y), Y.shape
    large: dict[str, Any] = {"method": "cofem", **options, "noise_precision": noise}
    if isinstance(noise, np.ndarray):
        large |= {"noise_precision": 1.0, "weights": np.repeat(noise, n)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fitting.ConvergenceWarning)  # told once, in the end
        post = fitting.fit(Copies(phi, number), xp.reshape(Y, (-1,)), **large)
    mean, variance, alpha = (
        backend.to_numpy(v).reshape(number, -1) for v in (post.mean, post.variance, post.precision)
    )
    betas = np.broadcast_to(np.asarray(noise, dtype=np.float64), (number,))
    return [
        Outcome(
            mean=mean[i], variance=variance[i], precision=alpha[i],
            noise_precision=float(betas[i]), converged=bool(post.converged), message=post.message,
        )
        for i in range(number)
    ]  # fmt: skip
