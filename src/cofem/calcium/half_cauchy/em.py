"""The fit of one trace: EM under a heavy-tailed prior.

A trace in units of its noise is y_t = c_t + noise of variance 1 (precision 0 where a
frame is missing), c = kernel * z, z_t ≥ 0 with prior variance q_t. Maximising the
evidence over every q_t alone (sparse Bayesian learning) switches off whatever is near
the noise, and the small spikes of a calcium trace with it. Here 1/q_t has the
hyperprior Gamma(½, ½u²), with which z_t is Cauchy of scale u (half-Cauchy, z ≥ 0), and
u = 1/‖kernel‖ is the standard error of one isolated event's amplitude: no constant is
left to choose. The M-step becomes

    q_t ← (E[z_t²] + u²) / 2.

The E-step is exact (solvers/banded) with rectified moments.

The loop is the compiled one of all traces (:func:`cofem.learning.banded_traces.em_row`), with the
M-step above as its site rule. The search for the decay time and the fit upside down, in ``cell``,
are drivers around it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cofem.calcium.half_cauchy.kernel import Kernel
from cofem.learning.banded_traces import em_row
from cofem.learning.sites.rectified_table import second_moment_table
from cofem.learning.sites.truncated_normal import standard_moments
from cofem.solvers.banded.first_order import EXACT
from cofem.solvers.banded.one_row import WORK_ROWS
from cofem.solvers.compiled import compiled

# Share of an EM step that is added to it; below 1 it still converges (Salakhutdinov & Roweis
# 2003).
RELAXATION = 0.8


class TraceFit(NamedTuple):
    """The posterior of one trace, in units of its noise.

    Attributes
    ----------
    mean, variance : ndarray (n,)
        Of the Gaussian posterior of z, before rectification.
    prior_variance : ndarray (n,)
        q, to which they belong.
    log_evidence : float
        log p(y | q).
    score : float
        log p(y | q) + log p(q): what kernels are compared by.
    iterations : int
    change : float
        ‖μ_new − μ_old‖/‖μ_new‖ in the last iteration.
    """

    mean: np.ndarray
    variance: np.ndarray
    prior_variance: np.ndarray
    log_evidence: float
    score: float
    iterations: int
    change: float


def fit_trace(
    kernel: Kernel, y: np.ndarray, beta: np.ndarray, *, max_iter: int = 50, tol: float = 1e-2
) -> TraceFit:
    """Fit one trace in units of its noise.

    Parameters
    ----------
    kernel : Kernel
        The response.
    y : ndarray (n,)
        The trace divided by the noise's standard deviation; any number where missing.
    beta : ndarray (n,)
        1 where a frame is there, 0 where it is missing.
    max_iter, tol
        The most E-steps, and the relative change of the mean at which to stop.

    Examples
    --------
    >>> from cofem.calcium.half_cauchy.kernel import kernel_from_times
    >>> kernel = kernel_from_times(0.5, 0.0, framerate=30.0)
    >>> y = np.random.default_rng(0).standard_normal(300)
    >>> y[100:] += 9 * kernel.coefficients[0] ** np.arange(200)
    >>> int(np.argmax(fit_trace(kernel, y, np.ones(300)).mean))
    100
    """
    n = len(y)
    u2 = 1 / kernel.norm**2
    q = np.full(n, 1 / kernel.peak**2)
    mean, variance = np.zeros(n), np.empty(n)
    work = np.empty((WORK_ROWS[len(kernel.coefficients)], n))
    log_det, quadratic, iterations, change = em_row(
        kernel.coefficients, y, q, beta, second_moment_table(), True, (0.5, u2, RELAXATION),
        max_iter, tol, work, mean, variance,
    )  # fmt: skip
    log_evidence = -0.5 * (np.count_nonzero(beta) * math.log(2 * math.pi) + log_det + quadratic)
    # Gamma(½, ½u²) of 1/q, as a density of log q.
    prior = -0.5 * float(np.sum(np.log(q) + u2 / q)) + 0.5 * n * math.log(u2 / (2 * math.pi))
    return TraceFit(mean, variance, q, log_evidence, log_evidence + prior, int(iterations), change)


@compiled(**EXACT)
def rectified_row(
    mean: np.ndarray, variance: np.ndarray, first: np.ndarray, std: np.ndarray
) -> None:
    """Write mean and standard deviation of z ≥ 0, given those of the Gaussian."""
    for j in range(len(mean)):
        sigma = math.sqrt(variance[j])
        if sigma == 0.0:
            first[j] = std[j] = 0.0
            continue
        _, above, spread = standard_moments(mean[j] / sigma)
        first[j] = sigma * above
        std[j] = sigma * math.sqrt(spread)
