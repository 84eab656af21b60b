"""What a fit was called with, in words that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cofem import backend
from cofem.model.methods import Method

# The data are not settings, and these three change nothing about the answer.
NOT_SETTINGS = ("phi", "y", "callback", "progress", "checkpoint")


def asked_for(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among the arguments of ``fit`` or ``posterior``.

    Numbers, words and None stay as they are; an array is named by its shape, a method by its
    name (``post.options`` holds the rest of it), anything else by its type.

    Examples
    --------
    >>> import numpy as np
    >>> asked_for({"phi": np.eye(2), "tol": 1e-4, "groups": np.zeros(3), "noise_std": None})
    {'tol': 0.0001, 'groups': 'array of shape (3,)', 'noise_std': None}
    """
    return {name: _word(value) for name, value in arguments.items() if name not in NOT_SETTINGS}


def _word(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
        return value if isinstance(value, bool | int | float | str) else str(value)
    if isinstance(value, Method):
        return value.name
    kind = "array" if backend.is_array(value) else type(value).__name__
    shape = getattr(value, "shape", None)
    return f"{kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else kind
