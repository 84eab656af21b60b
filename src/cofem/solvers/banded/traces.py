"""Traces, priors and noise as the recursions take them: checked, row by row, in threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cofem.solvers.banded import first_order, second_order
from cofem.solvers.banded.one_row import WORK_ROWS
from cofem.solvers.threads import in_threads

_RECURSIONS: dict[int, ModuleType] = {1: first_order, 2: second_order}
# With fewer samples than this in all, a second thread does not pay.
SAMPLES_PER_THREAD = 20_000


class Traces:
    """Checked, broadcast arguments, and the recursions that belong to the order.

    ``alpha_name`` is what the caller calls its prior precisions.
    """

    def __init__(
        self,
        coefficients: Sequence[float],
        y: Any,
        alpha: Any,
        noise_precision: Any,
        alpha_name: str = "alpha",
    ) -> None:
        self.coefficients = checked_coefficients(coefficients)
        self.recursions: Any = _RECURSIONS[len(self.coefficients)]
        y = real_array(y, "y")
        if y.ndim == 0 or 0 in y.shape:
            raise ValueError(f"y must be traces (…, n), got shape {y.shape}")
        self.shape = y.shape
        self.alpha = _broadcast(alpha, alpha_name, y.shape)
        self.beta = _broadcast(noise_precision, "noise_precision", y.shape)
        if not np.all(self.alpha > 0):
            raise ValueError(f"{alpha_name} must be positive (infinite where z is zero)")
        if not (np.all(self.beta >= 0) and np.all(np.isfinite(self.beta))):
            raise ValueError("noise_precision must be finite and at least zero")
        if not np.all(np.isfinite(y) | (self.beta == 0)):
            raise ValueError("y contains NaN or Inf at samples whose noise_precision is not zero")
        self._y = y.reshape(-1, y.shape[-1])
        self.rows = len(self._y)
        # Traces with the same α and β have the same covariance.
        self.shared = np.ndim(alpha) <= 1 and np.ndim(noise_precision) <= 1

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return y, unit/α, β/unit and the unit of a trace.

        Determinants of order 2 are products of two variances. With the largest noise
        precision as unit (a power of four, so nothing is rounded) they do not overflow,
        whatever units the data are in.
        """
        at = np.unravel_index(i, self.shape[:-1])
        beta = self.beta[at]
        unit = noise_unit(beta)
        # A missing sample may be NaN, and zero times NaN would spread.
        y = np.where(beta > 0, self._y[i], 0.0)
        return y, unit / self.alpha[at], beta / unit, unit

    def empty(self) -> np.ndarray:
        """Return an array for a result, a row for every trace."""
        return np.empty((self.rows, self.shape[-1]))

    def work(self) -> np.ndarray:
        """Return scratch for the filter of one trace."""
        return np.empty((WORK_ROWS[len(self.coefficients)], self.shape[-1]))

    def each_row(self, function: Callable[[int], None]) -> None:
        """Call ``function`` with the number of every trace."""
        few = self.rows * self.shape[-1] < SAMPLES_PER_THREAD
        in_threads(function, range(self.rows), threads=1 if few else None)


def noise_unit(beta: Any) -> float:
    """Return the power of four below the largest noise precision; 1 if all are zero.

    Neither it nor its square root rounds what it multiplies.

    Examples
    --------
    >>> noise_unit([0.0, 50.0])
    16.0
    """
    largest = float(np.max(beta))
    return 4.0 ** math.floor(math.log2(largest) / 2) if largest > 0 else 1.0


def checked_coefficients(coefficients: Sequence[float]) -> np.ndarray:
    """Return one or two finite coefficients as an array."""
    given = np.asarray(coefficients, dtype=np.float64)
    if given.ndim != 1 or len(given) not in _RECURSIONS:
        raise ValueError(
            f"coefficients must be 1 or 2 numbers, got shape {given.shape}: "
            "banded posteriors are for recursions of order 1 and 2"
        )
    if not np.all(np.isfinite(given)):
        raise ValueError("coefficients contain NaN or Inf")
    return given


def real_array(x: Any, name: str) -> np.ndarray:
    """Return real numbers in double precision, or refuse them by name."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise TypeError(f"{name} must be real: pass real and imaginary part as two traces")
    if x.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got dtype {x.dtype}")
    return np.asarray(x, dtype=np.float64)


def _broadcast(x: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = real_array(x, name)
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(
            f"{name} of shape {x.shape} does not fit traces of shape {shape}"
        ) from None
