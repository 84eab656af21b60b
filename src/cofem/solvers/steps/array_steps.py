"""CG steps on all rows together in any array library; systems that are done are masked.

Nothing is read back from the device but, every few steps, whether all systems
are done: on a GPU each look waits for everything that was queued before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.steps.numpy_steps import HostScalars
from cofem.solvers.systems import Matrix
from cofem.solvers.verdicts import Coefficients


class ArraySteps:
    """Systems A x = rhs for A of unit scale; arrays are replaced, never changed in place.

    Parameters
    ----------
    matrix : ShiftedGram or SparsifiedGram
    rhs : array (Q, D)
    inverse : array (D,)
        The diagonal of M⁻¹.
    start : array (S, D), S ≤ Q, or None
    """

    knows_rounding = lowers_at_looks = False
    looks_are_cheap = True

    def __init__(self, matrix: Matrix, rhs: Array, inverse: Array, start: Array | None) -> None:
        self.xp = xp = backend.namespace(rhs)
        self._kernels = ArrayKernels(xp)
        self._matrix, self._rhs, self._inverse, self._start = matrix, rhs, inverse, start
        self.eps = float(xp.finfo(inverse.dtype).eps)
        self.steps_between_looks = backend.steps_between_looks(rhs)
        self.scalars = HostScalars()
        self.expected = self.rows = 0
        self.x, self.r = xp.zeros_like(rhs), rhs
        self._lengths: list[Array] = []
        self._ratios: list[Array] = []
        self._report: Any = None

    def do(self, name: Any, work: Callable[..., None], *arguments: Any, products: int = 0) -> None:
        """Do it; products are counted where they are made."""
        work(*arguments)

    def set_tolerances(self, rtol: np.ndarray, balance: np.ndarray) -> None:
        """Take squared tolerances to where the systems are."""
        dtype = self._inverse.dtype
        moved = [
            self.xp.astype(backend.from_numpy(np.asarray(v), self._rhs), dtype)
            for v in (rtol, balance)
        ]
        self.scalars.set(rtol=moved[0], balance=moved[1])

    # -- the start ---------------------------------------------------------------------------

    def begin(self) -> Array:
        """R = rhs, X = 0; return rᴴM⁻¹r."""
        self._turn_to_residual()
        return self.rho

    def start(self) -> None:
        """Begin the first systems elsewhere than at zero."""
        if self._start is None:
            return
        xp, rhs, start = self.xp, self._rhs, self._start
        missing = rhs.shape[0] - start.shape[0]
        if missing:
            start = xp.concat([start, xp.zeros_like(rhs[:missing, :])])
        self.x = xp.where(self.scalars.zero[:, None], xp.zeros_like(start), start)
        self.recompute(self.scalars.zero)

    def recompute(self, of: Array) -> None:
        """R = rhs − A X for every system, and directions that begin with it."""
        self.r = self._rhs - self._matrix.product(self.x)
        self.rows += self._rhs.shape[0]
        self._turn_to_residual()

    def _turn_to_residual(self) -> None:
        self.p = self._inverse * self.r  # times unit/ρ from here on, see the kernels
        self.rho = self.unit = self._kernels.weighted_norm_squared(self.r, self._inverse)

    # -- one step ----------------------------------------------------------------------------

    def step(self, record: bool) -> None:
        """One step of every system that runs and is above its goal."""
        xp, kernels, unit, s = self.xp, self._kernels, self.unit, self.scalars
        g, curvature = kernels.curvature(self.p, self._matrix.bulk(self.p), self._matrix.diagonal)
        self.rows += self._rhs.shape[0]
        # Without a residual no direction is left, though under the joint rule it is not done.
        going = s.running() & ~(self.rho <= s.goal) & ~(self.rho == 0)
        live = going & (curvature > 0)
        one = xp.ones_like(self.rho)
        step = xp.where(live, unit / xp.where(live, curvature, one), 0 * one)
        self.x, self.r, rho = kernels.descend(self.x, self.r, self.p, g, step, self._inverse)
        onward = live & (rho > 0)
        factor = xp.where(onward, unit / xp.where(onward, rho, one), 0 * one)
        self.p = kernels.turn(self.p, self.r, factor, self._inverse)
        s.set(bad=s.bad | (going & ~live), steps=s.steps + xp.astype(live, s.steps.dtype))
        if record:
            before = xp.where(live, self.rho, one)
            self._lengths.append(step * unit / before)
            self._ratios.append(xp.where(live, rho / before, 0 * one))
        self.rho = xp.where(live, rho, self.rho)

    def mark(self) -> None:
        """Nothing is queued."""

    def look(self) -> bool:
        """Return whether a system runs."""
        s = self.scalars
        return bool(self.xp.any(s.running() & ~(self.rho <= s.goal)))

    def restore(self) -> None:
        """Nothing was set aside."""

    # -- what the rules ask ------------------------------------------------------------------

    def sizes(self) -> Array:
        """Return rᴴM⁻¹r of every system."""
        return self.rho

    def joint_size(self, of: Array) -> Array:
        """Return Σ ‖r‖² over those systems."""
        squares = self._kernels.weighted_norm_squared(self.r, self.xp.ones_like(self._inverse))
        total = self.xp.sum(self.xp.where(of, squares, 0 * squares))
        return self.xp.ones_like(squares) * total

    def pull(self, of: Array) -> Array:
        """Return Σ |diagonal x|²/M of every system."""
        return self._kernels.weighted_norm_squared(self.x * self._matrix.diagonal, self._inverse)

    def rounding(self, of: Array) -> Array:
        """Not estimated here: all residuals are recomputed."""
        return 0 * self.rho + np.inf

    # -- the end -----------------------------------------------------------------------------

    def report(self, *scalars: Array) -> None:
        """Stack them where they are."""
        dtype = self.rho.dtype
        self._report = self.xp.stack([self.xp.astype(v, dtype) for v in scalars])

    def reported(self) -> np.ndarray:
        """Bring them to the host."""
        return backend.to_numpy(self._report).astype(np.float64)

    def coefficients(self) -> list[Coefficients]:
        """Turn lists over steps into one pair of lists for each system: its first steps."""
        count = backend.to_numpy(self.scalars.steps).astype(np.int64)
        if not self._lengths:
            return [([], []) for _ in count]
        a = np.stack([backend.to_numpy(v) for v in self._lengths])
        b = np.stack([backend.to_numpy(v) for v in self._ratios])
        return [(a[:n, q].tolist(), b[:n, q].tolist()) for q, n in enumerate(count)]

    def solution(self) -> Array:
        """Return X (Q, D)."""
        found: Array = self.x
        return found


class ArrayKernels:
    """The updates of a step in the array API standard: new arrays, any library."""

    def __init__(self, xp: backend.Namespace) -> None:
        self._xp = xp

    def weighted_norm_squared(self, r: Array, weight: Array) -> Array:
        """Σ_j weight_j |r_j|² of every row."""
        return self._xp.sum(weight * backend.abs_squared(r), axis=-1)

    def curvature(self, p: Array, g: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return G + diagonal∘P and its inner product with P."""
        g = g + diagonal * p
        return g, self._xp.sum(backend.real(backend.conj(p) * g), axis=-1)

    def descend(
        self, x: Array, r: Array, p: Array, g: Array, step: Array, inverse: Array
    ) -> tuple[Array, Array, Array]:
        """Return X + step P, R − step G and rᴴM⁻¹r."""
        step = step[:, None]
        x = x + step * p
        r = r - step * g
        return x, r, self.weighted_norm_squared(r, inverse)

    def turn(self, p: Array, r: Array, factor: Array, inverse: Array) -> Array:
        """Return P + factor M⁻¹R."""
        return p + factor[:, None] * (inverse * r)
