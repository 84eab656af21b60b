"""Any other kernel: covariance-free EM with products by FFT.

A measured response has no short recursion, so the posterior is not exact and costs
seconds where the recursions take milliseconds. The prior is that of :func:`cofem.fit`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from cofem import backend
from cofem.calcium.half_cauchy.em import TraceFit
from cofem.calcium.half_cauchy.kernel import Kernel
from cofem.fitting.calls import ConvergenceWarning, fit
from cofem.model.methods import CoFEM
from cofem.operators import Autoregressive, Convolution, Diagonal


class MeasuredKernel(NamedTuple):
    """A response given frame by frame; peak and norm as in ``Kernel``.

    Attributes
    ----------
    response : ndarray (m,)
        What one event does, from its frame on.
    tau_d, tau_r : float
        NaN: it has none.
    """

    response: np.ndarray
    peak: float
    norm: float
    tau_d: float = math.nan
    tau_r: float = math.nan


def measured_kernel(response: Any, framerate: float) -> MeasuredKernel:
    """Check a response and scale it to a peak of 1.

    Examples
    --------
    >>> measured_kernel([0.0, 2.0, 1.0], 30.0).response
    array([0. , 1. , 0.5])
    """
    given = np.asarray(response)
    if given.dtype.kind not in "biuf" or given.ndim != 1 or len(given) == 0:
        raise ValueError(
            f"kernel must be a real array (n_frames,), got {given.dtype} of shape {given.shape}"
        )
    if not np.all(np.isfinite(given)) or not np.max(given) > 0:
        raise ValueError("kernel must be finite and rise above zero")
    response = given / float(np.max(given))
    return MeasuredKernel(response, 1.0, float(np.linalg.norm(response)))


def fit_measured(
    kernel: Kernel | MeasuredKernel,
    y: np.ndarray,
    beta: np.ndarray,
    max_iter: int,
    tol: float,
    seed: int,
) -> TraceFit:
    """Fit one trace in units of its noise by CoFEM; arguments as for ``fit_trace``.

    Examples
    --------
    >>> y = np.random.default_rng(0).standard_normal(200)
    >>> y[50:53] += [40.0, 20.0, 10.0]
    >>> found = fit_measured(measured_kernel([4.0, 2.0, 1.0], 30.0), y, np.ones(200), 20, 1e-2, 0)
    >>> int(np.argmax(found.mean))
    50
    """
    n = len(y)
    phi: Any = (
        Autoregressive(kernel.coefficients, n)
        if isinstance(kernel, Kernel)
        else Convolution(kernel.response[:n], n)
    )
    if not np.all(beta > 0):
        phi = Diagonal(beta) @ phi  # a missing frame says nothing: its row of Φ is zero
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported per cell
        post = fit(
            phi, y, noise_precision=1.0, nonnegative=True, method=CoFEM(), prior="ard",
            max_iter=max_iter, tol=0.0, seed=seed,
            # Traces stop by the change of the whole mean, as those of known kernels do.
            callback=lambda state: state.iteration > 1 and state.change <= tol,
        )  # fmt: skip
    return TraceFit(
        mean=backend.to_numpy(post.gaussian_mean),
        variance=backend.to_numpy(post.gaussian_variance),
        prior_variance=1 / backend.to_numpy(post.precision),
        log_evidence=post.log_evidence,
        score=post.log_evidence,
        iterations=len(post.history["iteration"]),
        change=float(post.history["change"][-1]),
    )
