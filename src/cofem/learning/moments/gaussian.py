"""What an E-step returns, and what it must be able to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cofem import backend
from cofem.backend import Array
from cofem.model.model import Family

# What the sites of a step are: an array of precisions in this package; the image model of
# ``cofem.mri`` has a matrix at every pixel.
SitesT_contra = TypeVar("SitesT_contra", contravariant=True)


@dataclass(frozen=True)
class Moments:
    """Posterior moments of a family of L tasks at given α.

    Where P problems are solved side by side, arrays have a row for each before their last axis.

    Attributes
    ----------
    mean : array (L, D)
        μ of the Gaussian posterior of x.
    variance : array (M,) or None
        Var (Rx)_j, the same for all tasks of the family, or an estimate inside its
        bounds; None where no M-step follows. R = I: Σ_jj, and M = D.
    sparse_mean : array (L, M)
        Rμ; ``mean`` itself for R = I.
    count : array (M,) or None
        How many directions each α_j stands for; None: one. See
        :mod:`cofem.learning.moments.leverage`.
    cavity : array (M,) or None
        1/Var (Rx)_j − α_j: how precisely the data and the other coordinates alone know each
        coordinate. Given where a pull was.
    departs : float
        The root mean square by which the precisions of the cavities depart from one number for
        all coordinates, relative to it, as far as the probes tell; 0 where they are exact.
    freedom : float, or array (P,)
        The number of directions that the data determine, over all tasks of the
        family: R = I, Σ_j (1 − α_j Σ_jj) for each.
    log_evidence : float
        log p(y | α, β), summed over the tasks, where it comes for free, else NaN.
    cg_steps, products : int
        CG steps and rows multiplied by Φ or Φᴴ in this E-step.
    trouble : str
        What went wrong in the solves, in words; empty if nothing did.
    solutions : array or None
        The mean and draws of the posterior minus their mean, as they were solved for; given where
        the site rule learns from draws.
    """

    mean: Array
    variance: Array | None
    sparse_mean: Array
    count: Array | None = None
    cavity: Array | None = None
    departs: Any = 0.0
    freedom: Any = math.nan
    log_evidence: float = math.nan
    cg_steps: int = 0
    products: int = 0
    trouble: str = ""
    solutions: Array | None = None


@dataclass(frozen=True)
class Report:
    """What the user is told at the end: variances of x with their errors, and the evidence.

    The variances, (D,), are those of every task of the family; the evidence is their sum.
    """

    variance: Array
    variance_error: Array
    log_evidence: float
    log_evidence_error: float
    cg_steps: int = 0
    products: int = 0
    trouble: str = ""


class MomentStep(Protocol[SitesT_contra]):
    """Posterior moments under given sites; the loop never asks how."""

    def moments(
        self,
        alpha: SitesT_contra,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the moments at α.

        ``start`` is the last mean, ``last`` says that no M-step follows. ``pull`` (L, M), what
        a prior that is not centred at zero adds: the right-hand side is βΦᴴy + Rᴴ pull.
        """
        ...


class EStep(MomentStep[Array], Protocol):
    """Posterior moments of one family of tasks, and their report at the end."""

    family: Family

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return the final variances and evidence at α."""
        ...


def log_evidence(family: Family, alpha: Array, mean: Array, log_det_precision: float) -> float:
    """Return log p(y | α, β), summed over the tasks, from log|A| and the means; R = I.

    log|C_y| = log|A| − Σ log α − N log β. The quadratic form is taken as
    β‖y − Φμ‖² + Σ α|μ|², the minimum that μ attains, so that a small error in μ
    enters squared.
    """
    xp = backend.namespace(alpha)
    n, beta = family.operator.shape[0], family.noise_precision
    misfit = backend.abs_squared(family.y - family.operator.forward(mean))
    double = xp.float64
    quadratic = beta * float(xp.sum(xp.astype(misfit, double)))
    quadratic += float(xp.sum(xp.astype(alpha * backend.abs_squared(mean), double)))
    log_det = log_det_precision - float(xp.sum(xp.log(xp.astype(alpha, double))))
    log_det -= n * math.log(beta)
    tasks = int(family.y.shape[0])
    if backend.is_complex(mean):
        return -(tasks * (n * math.log(math.pi) + log_det - family.log_volume) + quadratic)
    one = family.log_volume - 0.5 * (n * math.log(2 * math.pi) + log_det)
    return tasks * one - 0.5 * quadratic
