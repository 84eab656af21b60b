"""One E-step of one trace: what compiled EM loops over autoregressive signals share."""

from __future__ import annotations

import numpy as np

from cofem.solvers.banded import first_order, second_order
from cofem.solvers.banded.first_order import EXACT
from cofem.solvers.compiled import compiled

# Rows of scratch that the filters ask for, by order.
WORK_ROWS = {1: 3, 2: 7}

# Compiled code sees names of this module, not attributes of others.
_filter_1, _filter_2 = first_order.filter_row, second_order.filter_row
_dual_1, _dual_2 = first_order.dual_row, second_order.dual_row
_variance_1, _variance_2 = first_order.variance_row, second_order.variance_row


@compiled(**EXACT)
def moments_row(
    coefficients: np.ndarray,
    y: np.ndarray,
    prior_variance: np.ndarray,
    beta: np.ndarray,
    work: np.ndarray,
    dual: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> tuple[float, float, float, float]:
    """Write mean and variance of z, all (n,), and return what a loop needs besides.

    ``work`` and ``dual`` are scratch. Returns log|C_y|, yᵀC_y⁻¹y, and ‖Δμ‖² and ‖μ‖²,
    the change from the mean that was there before.
    """
    if len(coefficients) == 1:
        log_det, quadratic = _filter_1(coefficients, y, prior_variance, beta, work)
        _dual_1(coefficients, work, dual)
        _variance_1(coefficients, prior_variance, beta, work, variance)
    else:
        log_det, quadratic = _filter_2(coefficients, y, prior_variance, beta, work)
        _dual_2(coefficients, work, dual)
        _variance_2(coefficients, prior_variance, beta, work, variance)
    moved = size = 0.0
    for t in range(len(y)):
        value = prior_variance[t] * dual[t]
        moved += (value - mean[t]) ** 2
        size += value * value
        mean[t] = value
    return log_det, quadratic, moved, size
