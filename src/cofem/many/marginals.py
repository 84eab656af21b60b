"""What is kept of every fit beyond its moments: enough for intervals, supports, probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.learning.sites.marginals import Marginals
from cofem.model.model import Tie
from cofem.result.posterior import Posterior

ARD, MIXTURE = 1, 2
PRIORS = {ARD: "ard", MIXTURE: "mixture"}
# Arrays with a row of D numbers for every problem, and those with one for every component.
OF_COORDINATES = ("probability", "seen_value", "seen_precision", "seen_unit")
OF_COMPONENTS = ("prior_scales", "prior_weights")


def kept_of(post: Posterior) -> dict[str, Any]:
    """Return what is kept of a posterior.

    Under "ard" a coordinate is seen as its Gaussian posterior; probability and unit are NaN.
    """
    known = post.marginals
    if known is None:
        nothing = np.full(post.gaussian_mean.shape, np.nan)
        precision = 1 / np.maximum(post.gaussian_variance, np.finfo(np.float64).tiny)
        return {
            "prior": ARD, "probability": nothing, "seen_value": post.gaussian_mean,
            "seen_precision": precision, "seen_unit": nothing,
            "prior_scales": np.zeros(0), "prior_weights": np.zeros(0),
        }  # fmt: skip
    return {
        "prior": MIXTURE, "probability": known.probability, "seen_value": known.value,
        "seen_precision": known.precision, "seen_unit": known.unit,
        "prior_scales": known.scales, "prior_weights": known.weights,
    }  # fmt: skip


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
        marginals = None
        if self.prior(i) == "mixture":
            scales, weights = (np.asarray(self.arrays[name][i]) for name in OF_COMPONENTS)
            used = weights > 0  # the rows are as long as the longest prior
            marginals = Marginals(
                value=value, precision=precision, unit=unit,
                scales=scales[used], weights=weights[used],
                tie=Tie(None if self.groups is None else backend.to_numpy(self.groups)),
                nonnegative=self.nonnegative, mean=mean, variance=variance,
                probability=np.asarray(self.arrays["probability"][i]),
            )  # fmt: skip
        return Posterior(
            gaussian_mean=value, gaussian_variance=1 / precision,
            variance_error=np.zeros_like(variance), precision=1 / variance,
            noise_precision=np.nan, log_evidence=np.nan, log_evidence_error=np.nan, history={},
            converged=True, message="", method="", options=None, nonnegative=self.nonnegative,
            prior=self.prior(i), marginals=marginals,
        )  # fmt: skip
