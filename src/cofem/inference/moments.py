"""What an E-step returns, and what it must be able to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from cofem import backend
from cofem.backend import Array
from cofem.inference.model import Task


@dataclass(frozen=True)
class Moments:
    """Posterior moments of one task at given α.

    Attributes
    ----------
    mean : array (D,)
        μ of the Gaussian posterior.
    variance : array (D,) or None
        Σ_jj, or an estimate inside its bounds; None where no M-step follows.
    freedom : float
        Σ_j (1 − α_j Σ_jj), the number of directions that the data determine.
    log_evidence : float
        log p(y | α, β) where it comes for free, else NaN.
    cg_steps, products : int
        CG steps and rows multiplied by Φ or Φᴴ in this E-step.
    trouble : str
        What went wrong in the solves, in words; empty if nothing did.
    """

    mean: Array
    variance: Array | None
    freedom: float = math.nan
    log_evidence: float = math.nan
    cg_steps: int = 0
    products: int = 0
    trouble: str = ""


@dataclass(frozen=True)
class Report:
    """What the user is told at the end: variances with their errors, and the evidence."""

    variance: Array
    variance_error: Array
    log_evidence: float
    log_evidence_error: float
    cg_steps: int = 0
    products: int = 0
    trouble: str = ""


class EStep(Protocol):
    """Posterior moments of one task; the EM loop never asks how."""

    task: Task

    def moments(self, alpha: Array, start: Array | None, iteration: int, last: bool) -> Moments:
        """Return the moments at α; ``start`` is the last mean, ``last`` says no M-step follows."""
        ...

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return the final variances and evidence at α."""
        ...


def log_evidence(task: Task, alpha: Array, mean: Array, log_det_precision: float) -> float:
    """Return log p(y | α, β) from log|A| and the mean.

    log|C_y| = log|A| − Σ log α − N log β. The quadratic form is taken as
    β‖y − Φμ‖² + Σ α|μ|², the minimum that μ attains, so that a small error in μ
    enters squared.
    """
    xp = backend.namespace(alpha)
    n, beta = task.operator.shape[0], task.noise_precision
    misfit = backend.abs_squared(task.y - task.operator.forward(mean))
    double = xp.float64
    quadratic = beta * float(xp.sum(xp.astype(misfit, double)))
    quadratic += float(xp.sum(xp.astype(alpha * backend.abs_squared(mean), double)))
    log_det = log_det_precision - float(xp.sum(xp.log(xp.astype(alpha, double))))
    log_det -= n * math.log(beta)
    if backend.is_complex(mean):
        return -(n * math.log(math.pi) + log_det + quadratic)
    return task.log_volume - 0.5 * (n * math.log(2 * math.pi) + log_det + quadratic)
