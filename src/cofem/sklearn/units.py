"""From the standardised design back to the units of the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cofem import backend
from cofem.result.posterior import Posterior
from cofem.sklearn.design import Design


class InDataUnits(NamedTuple):
    """What a posterior of the standardised design says about the data.

    Attributes
    ----------
    coef, coef_std, precision : array (L, D)
        Weights, their standard deviations and their prior precisions. A feature that does not
        vary has the weight 0, the standard deviation ∞ and the precision 0.
    intercept, noise_precision : array (L,)
        An output that does not vary has the noise precision ∞.
    """

    coef: np.ndarray
    coef_std: np.ndarray
    precision: np.ndarray
    intercept: np.ndarray
    noise_precision: np.ndarray


def in_data_units(design: Design, post: Posterior) -> InDataUnits:
    """Undo the standardisation of features and outputs."""
    constant = design.power == 0  # this output does not vary: there is nothing to learn
    scale = np.where(constant, 0.0, design.y_scale)[:, None]
    varies = design.inverse_scale > 0
    mean, std, alpha = (backend.to_numpy(x) for x in (post.mean, post.std, post.precision))
    coef = mean * design.inverse_scale * scale
    per_unit = design.inverse_scale * design.y_scale[:, None]
    beta = np.asarray(post.noise_precision) / design.y_scale**2
    return InDataUnits(
        coef=coef,
        coef_std=np.where(varies, std * design.inverse_scale * scale, np.inf),
        precision=np.divide(alpha, per_unit**2, out=np.zeros_like(per_unit), where=varies),
        intercept=design.y_center - coef @ design.center,
        noise_precision=np.where(constant, np.inf, beta),
    )
