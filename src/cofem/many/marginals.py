"""What is kept of every fit beyond its moments: enough for intervals, supports, probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from scipy.special import ndtr, ndtri

from cofem import backend
from cofem.learning.sites.marginals import Marginals
from cofem.learning.supports.draws import Draws
from cofem.model.model import Tie
from cofem.result.posterior import Posterior

ARD, MIXTURE, SAMPLED, HALF_NORMAL = 1, 2, 3, 4
PRIORS = {ARD: "ard", MIXTURE: "mixture", SAMPLED: "mixture", HALF_NORMAL: "ard"}
# The probability of being non-zero that a coordinate gets which is zero in all draws.
LEAST = 1e-12
# Arrays with a row of D numbers for every problem, and those with one for every component.
OF_COORDINATES = ("probability", "seen_value", "seen_precision", "seen_unit")
OF_COMPONENTS = ("prior_scales", "prior_weights")


def kept_of(post: Posterior) -> dict[str, Any]:
    """Return what is kept of a posterior.

    Under "ard" a coordinate is seen as its Gaussian posterior; probability and unit are NaN. With
    z ≥ 0 it is seen without its half-normal prior, if it has one; probability is NaN.
    A posterior that is known by draws is seen as what a coordinate is when it is not zero.
    """
    known = post.marginals
    if isinstance(known, Draws):
        value, variance = _when_not_zero(known)
        return {
            "prior": SAMPLED, "probability": known.probability, "seen_value": value,
            "seen_precision": 1 / variance, "seen_unit": np.full(value.shape, np.nan),
            "prior_scales": np.zeros(0), "prior_weights": np.zeros(0),
        }  # fmt: skip
    if known is None:
        nothing = np.full(post.gaussian_mean.shape, np.nan)
        variance = backend.to_numpy(post.gaussian_variance)
        precision = 1 / np.maximum(variance, np.finfo(variance.dtype).tiny)
        return {
            "prior": ARD, "probability": nothing, "seen_value": post.gaussian_mean,
            "seen_precision": precision, "seen_unit": nothing,
            "prior_scales": np.zeros(0), "prior_weights": np.zeros(0),
        }  # fmt: skip
    learned = post.prior == "mixture"
    probability = known.probability if learned else np.full(known.mean.shape, np.nan)
    return {
        "prior": MIXTURE if learned else HALF_NORMAL,
        "probability": probability, "seen_value": known.value,
        "seen_precision": known.precision, "seen_unit": known.unit,
        "prior_scales": known.scales, "prior_weights": known.weights,
    }  # fmt: skip


def _when_not_zero(known: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of every coordinate given that it is not zero."""
    mean, variance, probability = (
        np.asarray(x, np.float64) for x in (known.mean, known.variance, known.probability)
    )
    p = np.maximum(probability, LEAST)
    inner = mean / p
    least = np.finfo(np.float64).eps * inner**2 + np.finfo(known.variance.dtype).tiny
    return inner, np.maximum((variance + mean**2) / p - inner**2, least)


@final
@dataclass(frozen=True, eq=False)
class AtomAndNormal:
    """Marginals of a sampled posterior: zero, or normal with the right mean and variance.

    Examples
    --------
    >>> half = AtomAndNormal(*(np.array([x]) for x in (3.0, 1.0, 0.5)), *2 * (np.zeros(1),))
    >>> half.quantile(0.25), half.quantile(0.75)
    (array([0.]), array([3.]))
    """

    value: np.ndarray
    precision: np.ndarray
    probability: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def quantile(self, p: float) -> np.ndarray:
        """Return the p-quantile of every coordinate."""
        share = np.maximum(np.asarray(self.probability, np.float64), LEAST)
        deviation = 1 / np.sqrt(np.asarray(self.precision, np.float64))
        below = share * ndtr(-self.value / deviation)
        level = np.where(p < below, p / share, (p - (1 - share)) / share)
        there = self.value + deviation * ndtri(np.clip(level, 0.0, 1.0))
        found = np.where((p >= below) & (p <= below + 1 - share), 0.0, there)
        return found.astype(self.mean.dtype)


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """The arrays, and what all fits had in common.

    Parameters
    ----------
    arrays : mapping of str to array
        Those of OF_COORDINATES and OF_COMPONENTS, and ``prior`` (P,); in memory or on the disk.
    groups : array (D,) or None
    nonnegative : bool
    """

    arrays: Mapping[str, Any] = field(repr=False)
    groups: Any = None
    nonnegative: bool = False

    def prior(self, i: int) -> str:
        """Return the prior that ran, or nothing if the fit failed."""
        return PRIORS.get(int(self.arrays["prior"][i]), "")

    def probabilities(self, i: int) -> np.ndarray | None:
        """Return P(z_j ≠ 0) of a problem under the learned prior, else None."""
        return np.asarray(self.arrays["probability"][i]) if self.prior(i) == "mixture" else None

    def posterior(self, i: int, mean: np.ndarray, variance: np.ndarray) -> Posterior:
        """Return the marginals of a problem as a posterior without its operator."""
        value, precision, unit = (
            np.asarray(self.arrays[name][i])
            for name in ("seen_value", "seen_precision", "seen_unit")
        )
        marginals: Any = None
        if self.arrays["prior"][i] == SAMPLED:
            marginals = AtomAndNormal(
                value, precision, np.asarray(self.arrays["probability"][i]), mean, variance
            )
        elif self.arrays["prior"][i] in (MIXTURE, HALF_NORMAL):
            scales, weights = (np.asarray(self.arrays[name][i]) for name in OF_COMPONENTS)
            used = weights > 0  # the rows are as long as the longest prior
            probability = np.asarray(self.arrays["probability"][i])
            if self.prior(i) == "ard":  # half-normal: nothing is zero
                probability = np.ones_like(mean)
            marginals = Marginals(
                value=value, precision=precision, unit=unit,
                scales=scales[used], weights=weights[used],
                tie=Tie(None if self.groups is None else backend.to_numpy(self.groups)),
                nonnegative=self.nonnegative, mean=mean, variance=variance,
                probability=probability,
            )  # fmt: skip
        return Posterior(
            gaussian_mean=value, gaussian_variance=1 / precision,
            variance_error=np.zeros_like(variance), precision=precision,
            noise_precision=np.nan, log_evidence=np.nan, log_evidence_error=np.nan, history={},
            converged=True, message="", method="", options=None, nonnegative=self.nonnegative,
            prior=self.prior(i), marginals=marginals,
        )  # fmt: skip
