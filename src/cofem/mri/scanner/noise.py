"""What k-space itself says of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np

MEDIAN_OF_POWER = np.log(2)  # the median of |ε|² for complex ε with E|ε|² = 1
FARTHEST = 0.1  # of the samples: where an image has least


def farthest_power(y: np.ndarray, mask: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return the median power E|ε|² of y (…, *shape) in the farthest tenth of the samples, (…).

    White noise is everywhere in k-space, texture fades outwards.
    """
    far = mask & (radius >= np.quantile(radius[mask], 1 - FARTHEST))
    return np.asarray(np.median(np.abs(y[..., far]) ** 2, axis=-1) / MEDIAN_OF_POWER)


def noise_ceiling(data: Any) -> np.ndarray:
    """Return a noise that cannot be exceeded by much, (L,): the median power far out.

    What the samples farthest from the centre have is noise and the rest of the texture: more
    noise than that there is not, however well it would explain the middle of k-space.
    """
    triples = zip(data.kspace, data.mask, data.radius(), strict=True)
    # The mean over coils, which may differ.
    return np.array([np.sqrt(np.mean(farthest_power(*triple))) for triple in triples])
