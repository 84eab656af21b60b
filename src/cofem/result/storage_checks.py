"""Checks of a stored posterior: every array and every fact, before any of them is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.learning.prior_choice import PRIORS
from cofem.learning.recording import empty_history
from cofem.result import storage_marginals

ARRAYS = ("gaussian_mean", "gaussian_variance", "variance_error", "precision")
SCALARS = ("log_evidence", "log_evidence_error")
# The prior of files that name none: when they were written there was only this one.
FIRST_PRIOR = "ard"
_HISTORY = tuple(empty_history())
# Facts that every file holds beside its arrays, and the types of all facts.
_NEEDED = ("method", "options", "converged", "message", "nonnegative")
_ABOUT: dict[str, type] = {
    "method": str, "options": dict, "converged": bool, "message": str, "nonnegative": bool,
    "sparsified": bool, "real": bool, "prior": str, "settings": dict,
}  # fmt: skip


def first_fault(arrays: dict[str, Any], about: dict[str, Any]) -> str:
    """Return what is wrong with the contents of a file; an empty text if nothing is."""
    for name in (*ARRAYS, *SCALARS, "noise_precision", *(f"history_{n}" for n in _HISTORY)):
        if name not in arrays:
            return f"it has no {name}"
    for name, kind in _ABOUT.items():
        if not isinstance(about.get(name, None if name in _NEEDED else kind()), kind):
            return f"{name} is not a {kind.__name__}"
    mean, precision = arrays["gaussian_mean"], arrays["precision"]
    if mean.ndim not in (1, 2) or mean.dtype.kind not in "fc":
        return f"gaussian_mean is {mean.dtype} of shape {mean.shape}"
    for name in ("gaussian_variance", "variance_error"):
        if arrays[name].shape != mean.shape or arrays[name].dtype.kind != "f":
            return f"{name} is {arrays[name].dtype} of shape {arrays[name].shape}"
    if np.any(arrays["gaussian_variance"] < 0):
        return "gaussian_variance is negative"
    if precision.ndim != 1 or precision.dtype.kind != "f" or not np.all(precision > 0):
        return "precision is not a vector of positive numbers"
    beta = arrays["noise_precision"]
    shape = () if mean.ndim == 1 else (len(mean),)
    if beta.shape != shape or beta.dtype.kind not in "iuf" or not np.all(beta > 0):
        return f"noise_precision is not positive of shape {shape}"
    for name in SCALARS:
        if arrays[name].shape != () or arrays[name].dtype.kind != "f":
            return f"{name} is not a number"
    columns = {name: a for name, a in arrays.items() if name.startswith("history_")}
    for name, values in columns.items():
        if values.dtype.kind != "f" or values.shape != (len(columns["history_iteration"]),):
            return f"{name} is {values.dtype} of shape {values.shape}"
        if is_count(name) and not np.all(np.isfinite(values)):
            return f"{name} is not finite"
    wrong = _faulty_constant(arrays, shape)
    if wrong:
        return wrong
    data = sum(name.startswith("y_") for name in arrays)
    for i in range(data):
        y = arrays.get(f"y_{i}", np.empty(0))
        if y.ndim != 1 or y.dtype.kind not in "fc" or not len(y):
            return f"y_{i} is not a vector of numbers"
    return _fault_of_prior(arrays, about)


def _fault_of_prior(arrays: dict[str, Any], about: dict[str, Any]) -> str:
    prior = about.get("prior", FIRST_PRIOR)
    if prior == "auto" or prior not in PRIORS:  # "auto" is resolved before a fit ends
        return f"prior is {prior!r}"
    if prior != "mixture" and not (about["nonnegative"] and storage_marginals.there(arrays)):
        return ""
    if about.get("sparsified", False):
        return "the learned prior does not go with a sparsifier"
    return storage_marginals.first_fault(arrays, arrays["gaussian_mean"])


def _faulty_constant(arrays: dict[str, Any], shape: tuple[int, ...]) -> str:
    """Return what is wrong with the intercept or the row weights, if there are any."""
    value, std = arrays.get("intercept"), arrays.get("intercept_std")
    if (value is None) != (std is None):
        return "it has only one of intercept and intercept_std"
    if value is not None and std is not None:
        kinds = value.dtype.kind in "fc" and std.dtype.kind == "f"
        if not kinds or value.shape != shape or std.shape != shape:
            return f"intercept is {value.dtype} of shape {value.shape}"
    for i in range(sum(name.startswith("y_") for name in arrays)):
        level = arrays.get(f"level_{i}", np.empty(0) if value is not None else np.zeros(()))
        if level.shape != () or level.dtype.kind not in "fc":
            return f"level_{i} is not a number"
        weights = arrays.get(f"weights_{i}", np.ones(1))
        if weights.ndim != 1 or weights.dtype.kind != "f" or not np.all(weights > 0):
            return f"weights_{i} is not a vector of positive numbers"
    return ""


def is_count(name: str) -> bool:
    """Whether a column of the history holds whole numbers."""
    return name.removeprefix("history_") in ("iteration", "cg_steps", "products")
