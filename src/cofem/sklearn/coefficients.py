"""What is known of the weights of a fitted regressor, in the units of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def interval(model: Any, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high) of every weight."""
    design = model._design
    varies = design.inverse_scale > 0
    unit = design.inverse_scale * _scale(model)[:, None]
    low, high = (edge * unit for edge in model._post.interval(level))
    low, high = np.where(varies, low, -np.inf), np.where(varies, high, np.inf)
    dtype = model.coef_.dtype
    return _shaped(model, low.astype(dtype)), _shaped(model, high.astype(dtype))


def support(model: Any, level: float) -> np.ndarray:
    """Return which weights are not zero."""
    varies = (model._design.inverse_scale > 0) & (_scale(model)[:, None] > 0)
    return _shaped(model, np.asarray(model._post.support(level)) & varies)


def drawn(model: Any, n_samples: int, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draw weights and intercepts."""
    design, random = model._design, check_random_state(random_state)
    draws = model._post.sample(n_samples, seed=int(random.randint(2**31 - 1)))
    coef = draws * design.inverse_scale * _scale(model)[:, None]
    own = random.standard_normal((n_samples, len(model._beta))) / np.sqrt(
        model._beta * design.total_weight
    )
    intercept = design.y_center - coef @ design.center + bool(model.fit_intercept) * own
    return (coef[:, 0], intercept[:, 0]) if model._one_output else (coef, intercept)


def _scale(model: Any) -> np.ndarray:
    """Return the unit of every output; zero if it never varied."""
    return np.where(np.isfinite(model._beta), model._design.y_scale, 0.0)


def _shaped(model: Any, values: np.ndarray) -> np.ndarray:
    return np.asarray(values[0] if model._one_output else values)
