"""How far a reconstruction is from the truth."""

from __future__ import annotations

from typing import Any

import numpy as np


def nrmse(image: Any, truth: Any) -> float:
    """‖image − truth‖ / ‖truth‖ over all contrasts.

    Examples
    --------
    >>> nrmse([3.0, 4.0], [3.0, 5.0]).__round__(3)
    0.171
    """
    image, truth = np.asarray(image), np.asarray(truth)
    if image.shape != truth.shape:
        raise ValueError(
            f"image has shape {image.shape} and truth {truth.shape}; they must be the same"
        )
    size = float(np.linalg.norm(truth))
    if size == 0:
        raise ValueError("truth is zero everywhere: nothing to compare with")
    return float(np.linalg.norm(image - truth)) / size
