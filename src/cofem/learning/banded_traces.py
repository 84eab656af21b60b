"""Thousands of autoregressive traces, each fitted on its own, in one compiled loop.

A microscope gives thousands of traces with the same kernel. Every trace has its own α
and its own noise precision, so nothing is shared but the kernel; what one fit costs
besides its arithmetic (Python, temporary arrays) would be most of its time. Here the
whole EM of a trace, E-steps and M-steps, is one compiled call, and traces are spread
over threads. The iterates are those of ``fit`` with the banded method.

The loop, :func:`em_row`, has a second site rule, that of the half-Cauchy prior of
:mod:`cofem.calcium.half_cauchy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.signal

from cofem.arguments import whole_number
from cofem.learning.sites.rectified_table import second_moment, second_moment_table
from cofem.model.model import LEAST_SIGNAL
from cofem.solvers.banded.first_order import EXACT
from cofem.solvers.banded.one_row import moments_row
from cofem.solvers.banded.traces import Traces
from cofem.solvers.compiled import compiled

# The M-step of sparse Bayesian learning: s ← E z².
ARD = (1.0, 0.0, 0.0)


class TraceFits(NamedTuple):
    """Posteriors of many traces.

    Attributes
    ----------
    mean, variance : ndarray (…, n)
        Of the Gaussian posterior of the innovations z, before rectification.
        :mod:`cofem.learning.sites.rectified` turns them into those of z ≥ 0.
    precision : ndarray (…, n)
        α, to which mean and variance belong.
    log_evidence : ndarray (…)
        log p(y | α, β).
    iterations : ndarray of int (…)
        E-steps made.
    change : ndarray (…)
        ‖μ_new − μ_old‖/‖μ_new‖ of the last iteration; infinite after the first one.
    converged : ndarray of bool (…)
        Whether that was at most ``tol``.
    """

    mean: np.ndarray
    variance: np.ndarray
    precision: np.ndarray
    log_evidence: np.ndarray
    iterations: np.ndarray
    change: np.ndarray
    converged: np.ndarray


def fit_traces(
    coefficients: Sequence[float],
    y: Any,
    noise_precision: Any,
    *,
    nonnegative: bool = True,
    max_iter: int = 100,
    tol: float = 1e-4,
    initial_precision: Any = None,
) -> TraceFits:
    """Fit sparse innovations z to every trace on its own.

    Parameters
    ----------
    coefficients : sequence of 1 or 2 floats
        Of the recursion, as in :class:`cofem.operators.Autoregressive`.
    y : array (…, n)
        Real traces.
    noise_precision : float or array that broadcasts to y's shape
        β: one number, (rows, 1) per trace, (n,) per sample; zero marks a missing sample.
    nonnegative : bool
        z ≥ 0, by a rectified posterior.
    max_iter, tol
        As for :func:`cofem.fit`, trace by trace.
    initial_precision : float or array that broadcasts to y's shape, optional
        Where α starts; None: from the power of each trace, as ``fit`` does.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.operators import Autoregressive
    >>> z = np.zeros((2, 200)); z[0, 50] = 1.0; z[1, [20, 120]] = 2.0
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal((2, 200))
    >>> y = Autoregressive((0.9,), 200).forward(z) + noise
    >>> found = fit_traces((0.9,), y, noise_precision=100.0)
    >>> [np.flatnonzero(row > 0.5).tolist() for row in found.mean]
    [[50], [20, 120]]
    """
    max_iter = whole_number("max_iter", max_iter, least=1)
    if not 0 <= tol < np.inf:
        raise ValueError(f"tol must be zero or positive, got {tol!r}")
    starts = 1.0 if initial_precision is None else initial_precision
    problem = Traces(coefficients, y, starts, noise_precision, "initial_precision")
    mean, variance, precision = problem.empty(), problem.empty(), problem.empty()
    totals = np.empty((4, problem.rows))
    table = second_moment_table()
    # The power at every sample if the innovations had variance 1.
    impulse = np.eye(1, problem.shape[-1])[0]
    kernel = scipy.signal.lfilter([1.0], [1.0, *-problem.coefficients], impulse)
    power_per_sample = np.cumsum(kernel**2)

    def one(i: int) -> None:
        y_row, s, beta, unit = problem.row(i)
        y_row *= unit**0.5  # the M-step adds squared means and variances: both in the same units
        if initial_precision is None:
            s = np.full(len(s), _starting_variance(y_row, beta, power_per_sample))
        mean[i] = 0.0
        totals[:, i] = em_row(
            problem.coefficients, y_row, s, beta, table, nonnegative, ARD, max_iter, tol,
            problem.work(), mean[i], variance[i],
        )  # fmt: skip
        mean[i] /= unit**0.5
        variance[i] /= unit
        with np.errstate(divide="ignore"):  # a prior variance may start at zero
            np.divide(unit, s, out=precision[i])
        totals[0, i] -= np.count_nonzero(beta) * np.log(unit)

    problem.each_row(one)
    leading = problem.shape[:-1]
    log_det, quadratic, iterations, change = totals.reshape(4, *leading)
    observed = np.count_nonzero(problem.beta, axis=-1)
    return TraceFits(
        mean=mean.reshape(problem.shape),
        variance=variance.reshape(problem.shape),
        precision=precision.reshape(problem.shape),
        log_evidence=-0.5 * (observed * np.log(2 * np.pi) + log_det + quadratic),
        iterations=iterations.astype(np.int64),
        change=np.where(iterations > 1, change, np.inf),
        converged=(iterations > 1) & (change <= tol) & (tol > 0),
    )


def _starting_variance(y: np.ndarray, beta: np.ndarray, power_per_sample: np.ndarray) -> float:
    """1/α at which the prior explains the power of the trace, less the noise's share."""
    seen = beta > 0
    if not seen.any():
        return 1.0  # no data: the scale does not matter, and α keeps it
    power, noise = float(y @ y), float(np.sum(1 / beta[seen]))
    signal = max(power - noise, LEAST_SIGNAL * power) or noise
    return signal / float(np.sum(power_per_sample[seen]))


@compiled(**EXACT)
def em_row(
    coefficients: np.ndarray,
    y: np.ndarray,
    s: np.ndarray,
    beta: np.ndarray,
    table: np.ndarray,
    nonnegative: bool,
    rule: tuple[float, float, float],
    max_iter: int,
    tol: float,
    work: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> tuple[float, float, float, float]:
    """Run EM on one trace; s = 1/α, mean and variance are left as they end.

    Parameters
    ----------
    rule : (share, added, relaxation)
        The M-step: s ← share (E z² + added), and ``relaxation`` times this step on top, until the
        mean's changes grow. (1, 0, 0) is sparse Bayesian learning.
    mean : array (n,)
        Zeros, which the first change is measured from.

    Returns log|C_y|, yᵀC_y⁻¹y, the number of iterations and the last change of the mean,
    ‖μ_new − μ_old‖/‖μ_new‖. No change larger than ``tol`` ends it; with tol 0 none does.
    """
    share, added, relaxation = rule
    n = len(y)
    dual = np.empty(n)
    log_det = quadratic = 0.0
    change, iteration = np.inf, 0
    for iteration in range(1, max_iter + 1):
        log_det, quadratic, moved, size = moments_row(
            coefficients, y, s, beta, work, dual, mean, variance
        )
        before, change = change, 0.0 if moved == 0.0 else np.sqrt(moved / size)
        if change > before:
            relaxation = 0.0  # it swings: plain EM, which cannot
        settled = iteration > 1 and tol > 0 and change <= tol
        if settled or iteration == max_iter:
            break
        for t in range(n):
            if nonnegative:
                second = second_moment(mean[t], variance[t], table)
            else:
                second = mean[t] * mean[t] + variance[t]
            fresh = share * (second + added)
            s[t] = max(fresh + relaxation * (fresh - s[t]), share * added)
    return log_det, quadratic, float(iteration), change
