"""What k-space itself says of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np

MEDIAN_OF_POWER = np.log(2)  # the median of |ε|² for complex ε with E|ε|² = 1
FARTHEST = 0.1  # of the samples: where an image has least


def noise_ceiling(data: Any) -> np.ndarray:
    """Return a noise that cannot be exceeded by much, (L,): the median power far out.

    White noise is everywhere in k-space, texture fades outwards. What the samples farthest
    from the centre have is noise and the rest of the texture: more noise than that there is
    not, however well it would explain the middle of k-space.
    """
    out = []
    for y, mask, radius in zip(data.kspace, data.mask, data.radius(), strict=True):
        far = mask & (radius >= np.quantile(radius[mask], 1 - FARTHEST))
        power = np.median(np.abs(y[..., far]) ** 2, axis=-1) / MEDIAN_OF_POWER
        out.append(np.sqrt(np.mean(power)))  # over coils, which may differ
    return np.array(out)
