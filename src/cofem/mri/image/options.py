"""What can be chosen for the model ``image``, and what is told while it learns."""

from __future__ import annotations

from dataclasses import dataclass

HISTORY = ("iteration", "change", "noise_std", "cg_steps", "products", "seconds")


@dataclass(frozen=True)
class ImageOptions:
    """How the model ``image`` is learned.

    Attributes
    ----------
    max_iter : int
        The most EM iterations.
    tol : float
        Stop when the mean changes by less than this fraction.
    coupling : float
        Width of the neighbourhood that shares second moments, in pixels.
    shrinkage : float
        How far a pixel's covariance is drawn to a diagonal one.
    n_draws : int
        Posterior draws for each M-step.
    mean_rtol : float
        Allowed residual of the system for the mean, relative to the prior's term in it.
    draw_rtol : float
        The draws' residual may be this fraction of their right-hand sides.
    floor : float
        The least standard deviation of a gradient, beside the noise's.
    first_noise, least_noise : float
        Where the noise starts, and the least that is learned, beside the images' level.
    least_given : float
        What a noise that was given is raised to, beside the images' level: below it the
        systems cannot be solved in single precision.
    folds : int
        Fits without some of the samples, which decide how wide the intervals are. 0: none,
        and the intervals are those of the Gaussian posterior alone.
    max_cg_steps : int
        The most CG steps of a solve.
    ties : str
        What a pixel's covariance may be; see :class:`cofem.mri.image.edge_prior.EdgeLearner`.

    Examples
    --------
    >>> ImageOptions(tol=1e-2).tol
    0.01
    """

    max_iter: int = 100
    tol: float = 5e-4
    coupling: float = 0.7
    shrinkage: float = 0.1
    n_draws: int = 1
    mean_rtol: float = 0.02
    draw_rtol: float = 0.1
    floor: float = 0.15
    first_noise: float = 0.08
    least_noise: float = 1.5e-3
    least_given: float = 5e-4
    folds: int = 2
    max_cg_steps: int = 500
    ties: str = "tensor"


@dataclass(frozen=True)
class Progress:
    """What a callback sees after every iteration."""

    iteration: int
    max_iter: int
    change: float
    cg_steps: int
