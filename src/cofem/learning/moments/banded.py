"""Exact posterior moments of autoregressive signals in O(D) time and memory.

Φ is the recursion c_t = Σ_k g_k c_{t−1−k} + z_t of order 1 or 2, whose inverse is
banded. Filter and smoother (:mod:`cofem.solvers.banded.factors`) give what a Cholesky factor
of the D×D matrix would, in D steps.

The recursions are compiled for the host and for double precision: arrays of other
libraries and devices are copied there and back at every E-step, and single
precision is widened. A step for 14,400 samples takes well under a millisecond, so a
device would not help.
"""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.gaussian import Moments, Report
from cofem.model.model import Family, Task
from cofem.operators import Autoregressive, LinearOperator
from cofem.solvers.banded import factors as banded

ORDERS = (1, 2)


def banded_coefficients(operator: LinearOperator) -> tuple[float, ...] | None:
    """Return the coefficients of an operator that this E-step can take, else None.

    Examples
    --------
    >>> from cofem.operators import DCT
    >>> banded_coefficients(Autoregressive((0.9,), 5)), banded_coefficients(DCT(5))
    ((0.9,), None)
    """
    if isinstance(operator, Autoregressive) and len(operator.coefficients) in ORDERS:
        return operator.coefficients
    return None


def _required(operator: LinearOperator) -> tuple[float, ...]:
    coefficients = banded_coefficients(operator)
    if coefficients is None:
        if isinstance(operator, Autoregressive):
            found = f"one of order {len(operator.coefficients)}"
        else:
            found = type(operator).__name__
        raise ValueError(
            "the banded method needs phi to be operators.Autoregressive of order 1 or 2, "
            f"got {found}"
        )
    return coefficients


class BandedEStep:
    """Mean, variances and evidence of autoregressive tasks by recursions.

    The results are those of the dense E-step up to rounding. No products with Φ are made, so none
    are counted.

    Parameters
    ----------
    family : Family
        Its operator is :class:`cofem.operators.Autoregressive` of order 1 or 2.
    like : array
        Library, device and dtype of z.

    Examples
    --------
    >>> import numpy as np
    >>> phi = Autoregressive((0.9,), n=3)
    >>> family = Family(phi, phi.forward(np.array([[1.0, 0.0, 2.0]])), 100.0, 0.0, (0,))
    >>> step = BandedEStep(family, np.empty(0))
    >>> step.moments(np.ones(3), None, 1, last=True).mean.round(2)
    array([[0.99, 0.03, 1.96]])
    """

    def __init__(self, family: Family, like: Array) -> None:
        self.family, self._like = family, like
        self._coefficients = _required(family.operator)
        self._complex = backend.is_complex(like)
        self._y = self._parts(backend.to_numpy(family.y))

    def moments(
        self,
        alpha: Array,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the exact moments."""
        precision = backend.to_numpy(alpha).astype(np.float64)
        # A pull moves the prior's mean to pull/α. Its image is subtracted from the data first.
        placed = None if pull is None else self._parts(backend.to_numpy(pull)) / precision
        y = self._y if placed is None else self._y - self.family.operator.forward(placed)
        found = banded.moments(self._coefficients, y, precision, self.family.noise_precision)
        tasks = len(self.family.members)
        mean = found.mean
        if placed is not None:
            mean = mean + placed
            found = self._about_zero(found, mean, precision)
        if self._complex:
            mean = mean[:tasks] + 1j * mean[tasks:]
        at_home = self._home(mean, complex_=self._complex)
        return Moments(
            mean=at_home,
            variance=self._home(found.variance[0]),
            sparse_mean=at_home,
            cavity=None if pull is None else self._home(1 / found.variance[0] - precision),
            freedom=tasks * float(found.freedom[0]),
            log_evidence=self._log_evidence(found),
        )

    def _about_zero(
        self, found: banded.BandedMoments, mean: np.ndarray, precision: np.ndarray
    ) -> banded.BandedMoments:
        """Return the moments with β‖y − Φμ‖² + Σ α|μ|² for the quadratic form, as all E-steps.

        What the pull adds to the evidence is added where that is put together
        (:mod:`cofem.learning.sites.findings`).
        """
        misfit = self._y - self.family.operator.forward(mean)
        quadratic = self.family.noise_precision * np.sum(misfit**2, axis=-1)
        quadratic += np.sum(precision * mean**2, axis=-1)
        evidence = found.log_evidence + 0.5 * (found.quadratic - quadratic)
        return found._replace(quadratic=quadratic, log_evidence=evidence)

    def _parts(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of real numbers: the parts of complex ones share their covariance."""
        if self._complex:
            rows = np.concatenate([rows.real, rows.imag])
        return rows.astype(np.float64)

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return the exact variances with zero error."""
        xp = backend.namespace(alpha)
        assert moments.variance is not None
        return Report(
            variance=moments.variance,
            variance_error=xp.zeros_like(moments.variance),
            log_evidence=moments.log_evidence,
            log_evidence_error=0.0,
        )

    def _log_evidence(self, found: banded.BandedMoments) -> float:
        tasks, n = len(self.family.members), self.family.operator.shape[0]
        if not self._complex:
            return tasks * self.family.log_volume + math.fsum(found.log_evidence)
        # Circular: −(N log π + log|C_y| + yᴴC_y⁻¹y), and every task has two rows.
        constant = tasks * (n * math.log(math.pi) + float(found.log_det[0]))
        return -(constant + math.fsum(found.quadratic))

    def _home(self, x: np.ndarray, complex_: bool = False) -> Array:
        """Return a result in the library, device and precision of the unknowns."""
        xp = backend.namespace(self._like)
        convert = backend.complex_dtype if complex_ else backend.real_dtype
        moved = backend.from_numpy(x, self._like)
        return xp.astype(moved, convert(self._like.dtype, xp), copy=False)


def banded_deviations(
    task: Task, alpha: Array, n: int, *, seed: int, like: Array, stream: int = 0
) -> Array:
    """Draw n exact samples of N(0, Σ), shape (n, D), for an autoregressive task.

    Examples
    --------
    >>> import numpy as np
    >>> task = Task(Autoregressive((0.9,), n=3), np.zeros(3), 1.0)
    >>> banded_deviations(task, np.ones(3), 5, seed=0, like=np.empty(0)).shape
    (5, 3)
    """
    coefficients = _required(task.operator)
    xp = backend.namespace(like)
    normal = backend.to_numpy(
        backend.Random(seed, stream).normal((n, task.operator.shape[1]), like)
    )
    rows = np.stack([normal.real, normal.imag]) if np.iscomplexobj(normal) else normal
    precision = backend.to_numpy(alpha).astype(np.float64)
    drawn = banded.deviations(coefficients, precision, task.noise_precision, rows)
    if np.iscomplexobj(normal):
        drawn = drawn[0] + 1j * drawn[1]
    return xp.astype(backend.from_numpy(drawn, like), like.dtype, copy=False)
