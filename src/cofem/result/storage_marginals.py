"""The part of a posterior's file that holds sites and marginals.

They are those of the learned prior, or of z ≥ 0 at known precisions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cofem import backend
from cofem.learning.sites.marginals import Marginals
from cofem.learning.supports.draws import Draws
from cofem.model.model import Tie
from cofem.result.posterior import Posterior

# Name in the file → attribute of the marginals. Their mean and variance are the posterior's.
_OF_COORDINATES = {
    "seen_value": "value", "seen_precision": "precision", "seen_unit": "unit",
    "mean": "mean", "variance": "variance", "probability": "probability",
}  # fmt: skip
_OF_COMPONENTS = {"prior_scales": "scales", "prior_weights": "weights"}
LABELS, PULL, SITES = "group_labels", "pull", "site_precision"
# Arrays that belong to the library and the device of phi.
AT_HOME = (*_OF_COORDINATES, PULL, SITES)
# Draws by rows: where each ends, the columns, and the values.
DRAWS = ("draw_ends", "draw_places", "draw_values")
# The weights were divided by their sum: what is left is rounding.
_ROUNDING = 1e-6


def packed(post: Posterior) -> dict[str, np.ndarray]:
    """Return what a file holds of sites and marginals; nothing if there are none."""
    known = post.marginals
    if known is None:
        return {}
    if isinstance(known, Draws):
        return {
            "probability": backend.to_numpy(known.probability),
            "draw_ends": np.asarray(known.kept.indptr[1:], dtype=np.int64),
            "draw_places": np.asarray(known.kept.indices, dtype=np.int64),
            "draw_values": known.kept.data,
        }
    arrays = {
        name: backend.to_numpy(getattr(known, attribute))
        for name, attribute in {**_OF_COORDINATES, **_OF_COMPONENTS}.items()
    }
    arrays[PULL] = backend.to_numpy(post.pull)
    arrays[SITES] = backend.to_numpy(post.site_precision)
    if known.tie.labels is not None:
        arrays[LABELS] = known.tie.labels
    return arrays


def there(arrays: dict[str, Any]) -> bool:
    """Whether a file holds marginals: under "ard" only where z ≥ 0 and nothing was learned."""
    return "seen_value" in arrays or DRAWS[0] in arrays


def unpacked(arrays: dict[str, Any], nonnegative: bool) -> Marginals | Draws:
    """Return the marginals again, from arrays in which :func:`first_fault` found no fault."""
    if DRAWS[0] in arrays:
        ends, places, values = (arrays[name] for name in DRAWS)
        shape = (len(ends), arrays["mean"].shape[0])
        kept = sparse.csr_array((values, places, np.concatenate([[0], ends])), shape=shape)
        return Draws(arrays["mean"], arrays["variance"], arrays["probability"], kept)
    names = {**_OF_COORDINATES, **_OF_COMPONENTS}
    return Marginals(
        **{attribute: arrays[name] for name, attribute in names.items()},
        tie=Tie(arrays.get(LABELS)),
        nonnegative=nonnegative,
    )


def first_fault(arrays: dict[str, Any], gaussian: np.ndarray) -> str:
    """Say what is wrong with the arrays of the learned prior; nothing, if nothing is.

    ``gaussian`` is the mean of the Gaussian posterior, whose shape and kind the others share.
    """
    if any(name in arrays for name in DRAWS):
        return _fault_of_draws(arrays, gaussian)
    for name in (*_OF_COORDINATES, *_OF_COMPONENTS, PULL, SITES):
        if name not in arrays:
            return f"it has no {name}"
    for name in AT_HOME:
        x = arrays[name]
        kinds = gaussian.dtype.kind if name in ("seen_value", "mean", PULL) else "f"
        if x.shape != gaussian.shape or x.dtype.kind not in kinds or not np.all(np.isfinite(x)):
            return f"{name} is not finite of kind {kinds} and shape {gaussian.shape}"
    for name in ("seen_precision", "seen_unit", SITES):
        if not np.all(arrays[name] > 0):
            return f"{name} is not positive"
    if np.any(arrays["variance"] < 0):
        return "variance is negative"
    if np.any((arrays["probability"] < 0) | (arrays["probability"] > 1)):
        return "probability is not between 0 and 1"
    return _fault_of_components(arrays) or _fault_of_labels(arrays, gaussian.shape[-1])


def _fault_of_draws(arrays: dict[str, Any], gaussian: np.ndarray) -> str:
    missing = [name for name in (*DRAWS, "probability") if name not in arrays]
    if missing:
        return f"it has no {missing[0]}"
    ends, places, values = (arrays[name] for name in DRAWS)
    if gaussian.ndim != 1 or arrays["probability"].shape != gaussian.shape:
        return "draws are of one task, and probability has its shape"
    if np.any((arrays["probability"] < 0) | (arrays["probability"] > 1)):
        return "probability is not between 0 and 1"
    whole = all(x.ndim == 1 and x.dtype.kind in "iu" for x in (ends, places))
    if not whole or values.shape != places.shape or values.dtype.kind != "f" or not len(ends):
        return "draws are not whole numbers and as many values"
    rising = ends[0] >= 0 and np.all(np.diff(ends) >= 0) and ends[-1] == len(places)
    inside = np.all((places >= 0) & (places < len(gaussian)))
    return "" if rising and inside and np.all(np.isfinite(values)) else "draws are out of range"


def _fault_of_components(arrays: dict[str, Any]) -> str:
    scales, weights = arrays["prior_scales"], arrays["prior_weights"]
    for name, x in (("prior_scales", scales), ("prior_weights", weights)):
        if x.ndim != 1 or len(x) < 2 or x.dtype.kind != "f" or not np.all(np.isfinite(x)):
            return f"{name} is not a vector of at least two finite numbers"
    if scales[0] != 0 or not np.all(scales[1:] > 0):
        return "prior_scales are not a spike of scale zero and slabs of positive scales"
    if len(weights) != len(scales) or not np.all(weights > 0):
        return f"prior_weights are not {len(scales)} positive numbers"
    if abs(float(np.sum(weights)) - 1) > _ROUNDING:
        return "prior_weights do not add up to one"
    return ""


def _fault_of_labels(arrays: dict[str, Any], unknowns: int) -> str:
    labels = arrays.get(LABELS)
    if labels is None:
        return ""
    if labels.shape != (unknowns,) or labels.dtype.kind not in "iu":
        return f"{LABELS} are not {unknowns} whole numbers"
    return ""
