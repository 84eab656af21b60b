"""Real unknowns behind complex measurements."""

from __future__ import annotations

import math

from cofem import backend
from cofem.backend import Array, Cache, MaskedTransform
from cofem.operators.base import LinearOperator

_ROOT_TWO = math.sqrt(2)


class Realified(LinearOperator):
    """√2 (Re Φ; Im Φ) as a real operator of shape (2N, D).

    Complex data y = Φz + ε with E|ε_i|² = 1/β and real z are the real data
    √2 (Re y; Im y) with noise variance 1/β: so Q = 2β Re(ΦᴴΦ) + diag(α).

    Parameters
    ----------
    operator : LinearOperator (N, D)
        Φ; complex output for real input, or real for that matter.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Fourier
    >>> phi = Realified(Fourier((4,), mask=np.array([True, True, False, False])))
    >>> phi.shape
    (4, 4)
    >>> phi.gram(np.array([1.0, 0.0, 0.0, 0.0]))
    array([1. , 0.5, 0. , 0.5])
    """

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.shape = (2 * operator.shape[0], operator.shape[1])
        self.trusted = operator.trusted
        self.splits_rows = operator.splits_rows
        self.exact_column_norms = operator.exact_column_norms
        self._cache = Cache()

    def stack(self, y: Array) -> Array:
        """Return √2 (Re y; Im y), the real form of complex data (…, N)."""
        return stack_real(y)

    def __repr__(self) -> str:
        # Errors name the user's operator and argument, not this class.
        return f"{self.operator!r} with real=True"

    def _forward(self, x: Array) -> Array:
        return self.stack(self.operator.forward(x))

    def _adjoint(self, y: Array) -> Array:
        n = self.operator.shape[0]
        joined = y[..., :n] + 1j * y[..., n:]
        return _ROOT_TWO * backend.real(self.operator.adjoint(joined))

    def _gram(self, x: Array) -> Array:
        return 2 * backend.real(self.operator.gram(x))

    def _column_norms_squared(self, like: Array) -> Array:
        return 2 * self.operator.column_norms_squared(like)

    def masked_transform(self, like: Array) -> MaskedTransform | None:
        """Describe ΦᴴΦ to solvers that fuse it, where Φ is a Fourier transform."""
        describe = getattr(self.operator, "masked_transform", None)
        inner = None if describe is None else describe(like)
        if inner is None or inner.kind != "fourier":
            return None
        weights = self._cache.get(like, lambda: _with_its_mirror(inner), "weights")
        return MaskedTransform("fourier", inner.shape, weights, real=True)


def stack_real(y: Array) -> Array:
    """Return √2 (Re y; Im y), the real form of complex data (…, N)."""
    xp = backend.namespace(y)
    imaginary = xp.imag(y) if backend.is_complex(y) else xp.zeros_like(y)
    return _ROOT_TWO * xp.concat([backend.real(y), imaginary], axis=-1)


def _with_its_mirror(inner: MaskedTransform) -> Array:
    """Return the weight of every frequency plus that of its negative: 2 Re ΦᴴΦ has them."""
    xp, axes = backend.namespace(inner.weights), tuple(range(len(inner.shape)))
    grid = xp.reshape(inner.weights, inner.shape)
    mirrored = xp.roll(xp.flip(grid, axis=axes), shift=(1,) * len(axes), axis=axes)
    return xp.reshape(grid + mirrored, (-1,))
