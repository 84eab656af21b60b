"""How far a reconstruction is from the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.simulate import relative_error


def nrmse(image: Any, truth: Any) -> float:
    """‖image − truth‖ / ‖truth‖ over all contrasts.

    Examples
    --------
    >>> nrmse([3.0, 4.0], [3.0, 5.0]).__round__(3)
    0.171
    """
    return relative_error(np.asarray(image), np.asarray(truth), "image")
