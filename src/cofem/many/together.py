"""Problems of one shape on a device: one large fit whose parts do not touch each other.

A fit of a thousand unknowns leaves a GPU idle; one of ten million keeps it busy. If every
coordinate has a prior precision of its own and the noise is known, P problems with one Φ are one
problem with P copies of Φ side by side: no precision, mean or variance of one problem depends on
another problem. Only the end of conjugate gradients and of learning is common to them.
"""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np

from cofem import backend, fitting
from cofem.backend import Array
from cofem.many.inputs import noise_of
from cofem.many.layout import Layout, Outcome
from cofem.many.result import ManyPosteriors, result_of
from cofem.many.stores import MemoryStore
from cofem.operators import LinearOperator

# The most unknowns of one large fit. A larger one only needs more memory: the GPU is already busy.
AT_ONCE = 1 << 24
# Options that couple coordinates, or that belong to one problem, cannot be used in such a fit.
ALLOWED = ("method", "prior", "nonnegative", "max_iter", "tol", "seed")


@final
class Copies(LinearOperator):
    """Φ on every one of P parts of a vector: (…, P·D) to (…, P·N).

    Examples
    --------
    >>> from cofem.operators import Dense
    >>> Copies(Dense(np.array([[1.0, 2.0]])), 2).to_dense()
    array([[1., 2., 0., 0.],
           [0., 0., 1., 2.]])
    """

    def __init__(self, inner: LinearOperator, number: int) -> None:
        self._inner, self._number = inner, number
        self.shape = (number * inner.shape[0], number * inner.shape[1])
        self.is_complex, self.field = inner.is_complex, inner.field
        self.exact_column_norms = inner.exact_column_norms

    def _forward(self, x: Array) -> Array:
        return self._parted(self._inner.forward, x)

    def _adjoint(self, y: Array) -> Array:
        return self._parted(self._inner.adjoint, y)

    def _gram(self, x: Array) -> Array:
        return self._parted(self._inner.gram, x)

    def _parted(self, product: Any, x: Array) -> Array:
        xp, front = backend.namespace(x), tuple(x.shape[:-1])
        parts = product(xp.reshape(x, (*front, self._number, x.shape[-1] // self._number)))
        return xp.reshape(parts, (*front, -1))

    def _column_norms_squared(self, like: Array) -> Array:
        xp = backend.namespace(like)
        return xp.tile(self._inner.column_norms_squared(like), (self._number,))


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
    noise = noise_of(options, len(Y))
    _check(phi, Y, noise, options, store)
    target, size = MemoryStore(), max(1, AT_ONCE // phi.shape[1])
    for first in range(0, len(Y), size):
        rows = slice(first, min(first + size, len(Y)))
        precision = noise[rows] if isinstance(noise, np.ndarray) else noise
        outcomes = _fitted(phi, Y[rows, :], precision, options)
        if target.layout is None:
            kind = np.asarray(outcomes[0].mean).dtype.name
            target.create(Layout(len(Y), phi.shape[1], phi.shape[1], kind))
        target.write(dict(enumerate(outcomes, start=first)))
    return result_of(target, len(Y), options)


def _check(phi: LinearOperator, Y: Array, noise: Any, options: dict[str, Any], store: Any) -> None:
    """Refuse what is not of one problem alone."""
    if noise is None:
        raise TypeError(
            "noise_precision must be given for rows on a device: they are fitted together, and "
            "each would need its own; move Y to the host to have it learned for every row"
        )
    if options.get("prior") != "ard":
        raise TypeError(
            f'prior must be "ard" for rows on a device, got {options.get("prior", "auto")!r}: a '
            "learned prior would be that of all rows together; or move Y to the host"
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
