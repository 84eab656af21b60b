"""The quantities of the sequential method for one family of tasks, and how one move changes them.

With the prior variances γ_j = 1/α_j of an active set S, all else being zero, the data have
covariance C = I/β + Σ_{j∈S} γ_j φ_j φ_jᴴ. The evidence as a function of one γ_j depends on
two numbers for every coordinate (Tipping & Faul 2003),

    S_j = φ_jᴴ C⁻¹ φ_j   and   Q_j = φ_jᴴ C⁻¹ y.

A move, γ_i → γ_i + δ, changes C by δ φ_iφ_iᴴ. With w = ΦᴴC⁻¹φ_i and κ = δ/(1 + δS_i),

    S_j ← S_j − κ|w_j|²,   Q_j ← Q_j − κ w_j Q_i:

one formula for adding, re-estimating and deleting. Beyond S and Q only matrices of the size of
the active set are kept: Σ, and the Gram matrix of the active columns, from which Σ can be
computed afresh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_extra as xpx

from cofem import backend
from cofem.backend import Array
from cofem.model.model import Family
from cofem.operators import Dense
from cofem.rivals.active_set import ActiveSet
from cofem.rivals.inverse_updates import add_rank_one, write_border

# s_j is S_j less the share of the other columns. Below this share of S_j it is rounding.
FLOOR = 1e-10
# Coordinates for which there is room at first; it doubles when it is full.
FIRST_SIZE = 64
# Rows of a block when unit vectors or all active columns go through the operator.
BLOCK = 16


@dataclass(frozen=True)
class Direction:
    """What is needed to change coordinate i in one family.

    Attributes
    ----------
    response : array (D,)
        w = ΦᴴC⁻¹φ_i.
    s : float
        φ_iᴴ C₋ᵢ⁻¹ φ_i, with i left out of C.
    q : array (L,)
        φ_iᴴ C₋ᵢ⁻¹ y of every task.
    coupling : array (d,) or None
        βΣΦ_Sᴴφ_i of an inactive coordinate.
    gram : array (d + 1,) or None
        Φ_Sᴴφ_i, and ‖φ_i‖² at the end, of an inactive coordinate.
    """

    response: Array
    s: float
    q: Array
    coupling: Array | None = None
    gram: Array | None = None


class FamilyState:
    """Σ, μ, S and Q of one family of tasks, in double precision.

    Parameters
    ----------
    family : Family
        L tasks with one operator and one noise precision.
    like : array
        With the library and device of z, complex if z is.
    active : ActiveSet
        Shared by all families; whoever changes it must also update every family.
    """

    def __init__(self, family: Family, like: Array, active: ActiveSet) -> None:
        xp = backend.namespace(like)
        convert = backend.complex_dtype if backend.is_complex(like) else backend.real_dtype
        self.home = xp.empty((0,), dtype=convert(xp.float64, xp), device=backend.device_of(like))
        self.operator, self.active = family.operator, active
        self.beta, self.log_volume = family.noise_precision, family.log_volume
        self.y = xp.astype(family.y, self._data_dtype(family.y))
        self.tasks, self.products = int(self.y.shape[0]), 0
        self.correlation = self._adjoint(self.y)  # Φᴴy, (L, D)
        self.norms = self._column_norms()
        self.sparsity = self.beta * self.norms  # S_j, (D,)
        self.quality = self.beta * self.correlation  # Q_j, (L, D)
        self.floor = FLOOR * self.sparsity
        self._covariance, self._gram = (self._zeros((FIRST_SIZE, FIRST_SIZE)) for _ in range(2))
        self.mean = self._zeros((self.tasks, FIRST_SIZE))

    # -- what the choice of a move looks at --------------------------------------

    @property
    def covariance(self) -> Array:
        """Σ of the active coordinates, (d, d)."""
        d = len(self.active)
        return self._covariance[:d, :d]

    @property
    def variance(self) -> Array:
        """Its diagonal, (d,), real."""
        return backend.real(backend.namespace(self.home).linalg.diagonal(self.covariance))

    @property
    def means(self) -> Array:
        """μ of the active coordinates, (L, d)."""
        return self.mean[:, : len(self.active)]

    def left_out(self, alpha: Array) -> tuple[Array, Array]:
        """Return s and Σ_ℓ|q|² of the active coordinates, each (d,), at their α."""
        variance = self.variance
        xp = backend.namespace(variance)
        s = xp.clip(1 / variance - alpha, min=0.0)
        return s, xp.sum(backend.abs_squared(self.means), axis=0) / variance**2

    # -- moves ---------------------------------------------------------------------

    def direction(self, i: int, alpha: float) -> Direction:
        """Return what a move of coordinate i needs; α_i if it is active."""
        return self._of_active(i, alpha) if self.active.holds(i) else self._of_inactive(i)

    def _of_active(self, i: int, alpha: float) -> Direction:
        slot = int(self.active.slots[i])
        column = self.covariance[:, slot]
        # C⁻¹φ_i = βα_i Φ_S Σ_i for an active i.
        response = self._gram_product(self.active.put(self.beta * alpha * column))
        variance = float(backend.real(column[slot]))
        return Direction(response, max(1 / variance - alpha, 0.0), self.means[:, slot] / variance)

    def _of_inactive(self, i: int) -> Direction:
        xp, d = backend.namespace(self.home), len(self.active)
        if isinstance(self.operator, Dense):
            # Φ is stored, so its columns are known: one product is enough.
            matrix, dtype = self.operator.to_dense(self.home), self.home.dtype
            column = xp.astype(matrix[:, i], dtype)
            others = xp.astype(self.active.take(matrix, axis=1), dtype, copy=False)
            gram = backend.conj(xp.matrix_transpose(others)) @ column
            coupling = self.beta * (self.covariance @ gram)
            response = self.beta * self._adjoint(column - others @ coupling)
        else:
            unit = xpx.at(self._zeros((self.operator.shape[1],)))[i].set(1.0)
            response = self.beta * self._gram_product(unit)
            gram = self.active.take(response) / self.beta
            coupling = self.beta * (self.covariance @ gram)
            if d:
                response = response - self.beta * self._gram_product(self.active.put(coupling))
        # φ_iᴴ C⁻¹ y = β(φ_iᴴy − φ_iᴴΦ_S μ), computed now, not from the running sums.
        explained = xp.sum(self.means * backend.conj(gram), axis=-1)
        q = self.beta * (self.correlation[:, i] - explained)
        norm = xp.astype(self.norms[i : i + 1], self.home.dtype)
        s = max(float(backend.real(response[i])), 0.0)
        return Direction(response, s, q, coupling, xp.concat([gram, norm]))

    def apply(self, i: int, direction: Direction, old: float, new: float) -> None:
        """Change γ_i from ``old`` to ``new``; called before the active set changes."""
        s, q = direction.s, direction.q / (1 + old * direction.s)  # q is now Q_i
        factor = (new - old) * (1 + old * s) / (1 + new * s)  # κ
        self.sparsity = self.sparsity - factor * backend.abs_squared(direction.response)
        self.quality = self.quality - factor * q[:, None] * direction.response[None, :]
        if old == 0.0:
            self._append(direction, new)
        elif new == 0.0:
            slot = int(self.active.slots[i])
            self._shift(slot, 1 / float(self.variance[slot]))
            self._drop(slot)
        else:
            slot, change = int(self.active.slots[i]), 1 / new - 1 / old
            self._shift(slot, change / (1 + change * float(self.variance[slot])))

    def _append(self, direction: Direction, new: float) -> None:
        assert direction.coupling is not None
        d, u = len(self.active), direction.coupling
        if d == self._covariance.shape[0]:
            self._grow()
        variance = 1 / (1 / new + direction.s)
        mean = variance * direction.q
        self._covariance = add_rank_one(self._covariance, u, variance)
        self._covariance = write_border(self._covariance, d, -variance * u, variance)
        assert direction.gram is not None
        norm = float(backend.real(direction.gram[d]))
        self._gram = write_border(self._gram, d, direction.gram[:d], norm)
        self.mean = xpx.at(self.mean)[:, :d].subtract(mean[:, None] * u[None, :])
        self.mean = xpx.at(self.mean)[:, d].set(mean)

    def _shift(self, slot: int, factor: float) -> None:
        """Σ ← Σ − factor Σ_iΣ_iᴴ, μ ← μ − factor μ_i Σ_i."""
        d = len(self.active)
        column = backend.namespace(self.home).asarray(self.covariance[:, slot], copy=True)
        moved = factor * self.mean[:, slot][:, None] * column[None, :]
        self._covariance = add_rank_one(self._covariance, column, -factor)
        self.mean = xpx.at(self.mean)[:, :d].subtract(moved)

    def _drop(self, slot: int) -> None:
        """Move the last slot into this one."""
        last = len(self.active) - 1
        for name in ("_covariance", "_gram"):
            matrix = getattr(self, name)
            corner = float(backend.real(matrix[last, last]))
            border = backend.namespace(matrix).asarray(matrix[: last + 1, last], copy=True)
            setattr(self, name, write_border(matrix, slot, border, corner))
        self.mean = xpx.at(self.mean)[:, slot].set(self.mean[:, last])

    # -- afresh --------------------------------------------------------------------

    def refresh(self, alpha: Array) -> float:
        """Compute Σ, μ and Q anew from the Gram matrix; return the log evidence."""
        xp, d = backend.namespace(self.home), len(self.active)
        if not d:
            return self._log_evidence(0.0, self.beta * _total(backend.abs_squared(self.y)))
        eye = xp.eye(d, dtype=self.home.dtype, device=backend.device_of(self.home))
        root = backend.inverse_cholesky(self.beta * self._gram[:d, :d] + eye * alpha)
        inverse = backend.conj(xp.matrix_transpose(root)) @ root
        self._covariance = xpx.at(self._covariance)[:d, :d].set(inverse)
        right = self.beta * self.active.take(self.correlation)
        # Rows: μ_ℓ = Σ r_ℓ is r_ℓ Σᵀ.
        self.mean = xpx.at(self.mean)[:, :d].set(right @ xp.matrix_transpose(inverse))
        residual = self.y - self.operator.forward(self.active.put(self.means))
        self.products += self.tasks
        self.quality = self.beta * self._adjoint(residual)
        diagonal = backend.real(xp.linalg.diagonal(root))
        log_det = -2 * _total(xp.log(diagonal)) - _total(xp.log(alpha))
        # β‖y‖² − (βΦᴴy)ᴴμ would lose all digits by cancellation when the noise is small.
        quadratic = self.beta * _total(backend.abs_squared(residual))
        quadratic += _total(alpha * backend.abs_squared(self.means))
        return self._log_evidence(log_det, quadratic)

    def refresh_sparsity(self) -> None:
        """Compute S anew: S_j = β‖φ_j‖² − β² Σ_k |(L⁻¹Φ_Sᴴφ_j)_k|², where Σ = L⁻ᴴL⁻¹."""
        xp, d = backend.namespace(self.home), len(self.active)
        self.sparsity = self.beta * self.norms
        root = xp.linalg.cholesky(self.covariance) if d else self.covariance
        for first in range(0, d, BLOCK):
            # Column k of the factor R of Σ = RRᴴ, as a row, through ΦᴴΦ.
            rows = xp.matrix_transpose(root[:, first : min(first + BLOCK, d)])
            image = self._gram_product(self.active.put(rows))
            self.sparsity = self.sparsity - self.beta**2 * xp.sum(
                backend.abs_squared(image), axis=0
            )

    def _log_evidence(self, log_det: float, quadratic: float) -> float:
        """Return log p(y) over all tasks from log|A| − Σ log α and Σ yᴴC⁻¹y."""
        n, L = self.operator.shape[0], self.tasks
        log_det -= n * math.log(self.beta)
        if backend.is_complex(self.home):
            return -(L * (n * math.log(math.pi) + log_det) + quadratic)
        return L * (self.log_volume - 0.5 * (n * math.log(2 * math.pi) + log_det)) - 0.5 * quadratic

    # -- products and storage --------------------------------------------------------

    def _adjoint(self, y: Array) -> Array:
        self.products += 1 if y.ndim == 1 else int(y.shape[0])
        xp = backend.namespace(self.home)
        return xp.astype(self.operator.adjoint(y), self.home.dtype, copy=False)

    def _gram_product(self, x: Array) -> Array:
        self.products += 2 if x.ndim == 1 else 2 * int(x.shape[0])
        return self.operator.gram(x)

    def _column_norms(self) -> Array:
        """‖φ_j‖², exact: an estimate would make every gain an estimate."""
        if self.operator.exact_column_norms:
            return self.operator.column_norms_squared(self.home)
        xp, d = backend.namespace(self.home), self.operator.shape[1]
        parts = []
        for first in range(0, d, BLOCK):
            rows = min(BLOCK, d - first)
            unit = xp.eye(
                rows, d, k=first, dtype=self.home.dtype, device=backend.device_of(self.home)
            )
            parts.append(xp.sum(backend.abs_squared(self.operator.forward(unit)), axis=-1))
        self.products += d
        return xp.concat(parts)

    def _data_dtype(self, y: Array) -> Any:
        xp = backend.namespace(y)
        convert = backend.complex_dtype if backend.is_complex(y) else backend.real_dtype
        return convert(xp.float64, xp)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        xp = backend.namespace(self.home)
        return xp.zeros(shape, dtype=self.home.dtype, device=backend.device_of(self.home))

    def _grow(self) -> None:
        d = len(self.active)
        for name in ("_covariance", "_gram"):
            old = getattr(self, name)
            setattr(self, name, xpx.at(self._zeros((2 * d, 2 * d)))[:d, :d].set(old))
        self.mean = xpx.at(self._zeros((self.tasks, 2 * d)))[:, :d].set(self.mean)


def _total(x: Array) -> float:
    return float(backend.namespace(x).sum(x))
