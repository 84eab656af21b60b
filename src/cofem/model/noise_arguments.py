"""The noise as the user gives it: a precision or a standard deviation, for all data or for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend


@dataclass(frozen=True)
class Noise:
    """What is known about the noise of one task: row i has the precision β w_i.

    Attributes
    ----------
    precision : float
        β, NaN if it is to be learned.
    weights : ndarray (N,) or None
        w; None: all one.
    """

    precision: float
    weights: np.ndarray | None = None


def noise_from(
    noise_precision: Any, noise_std: Any, weights: Any, sizes: Sequence[int], joint: bool
) -> list[Noise]:
    """Check the user's arguments about the noise; return the noise of every task.

    Parameters
    ----------
    noise_precision, noise_std, weights
        As for :func:`cofem.fit`.
    sizes : sequence of int
        N of every task.
    joint : bool
        Whether there is an axis of tasks.
    """
    name, given = "noise_precision", noise_precision
    if noise_std is not None:
        if noise_precision is not None:
            raise ValueError("noise_std and noise_precision say the same thing: give one of them")
        name, given = "noise_std", noise_std
    shared: list[np.ndarray | None] = [None] * len(sizes)
    if weights is not None:
        shared = [*_rows("weights", weights, sizes, joint)]
    if given is None:
        return [Noise(math.nan, w) for w in shared]
    values = _positive(name, given)
    if noise_std is not None:
        with np.errstate(over="ignore", under="ignore"):
            values = values**-2.0
        if not np.all(np.isfinite(values)) or not np.all(values > 0):
            raise ValueError(f"noise_std: 1/noise_std² over- or underflows, got {given!r}")
    if values.ndim == 0 or values.shape == (len(sizes),):
        each = np.broadcast_to(values, (len(sizes),))
        return [Noise(float(b), w) for b, w in zip(each, shared, strict=True)]
    _refuse_other_shapes(name, values, sizes, joint)
    if weights is not None:
        raise ValueError(f"weights and a {name} for every row say the same thing: give one of them")
    known = _rows(name, values, sizes, joint)
    return [Noise(float(np.mean(w)), w / np.mean(w)) for w in known]


def _refuse_other_shapes(name: str, values: np.ndarray, sizes: Sequence[int], joint: bool) -> None:
    if joint:
        fits = values.ndim == 2
        expected = f"one number, one per task ({len(sizes)}), or one for every row of every task"
    else:
        fits = values.shape == (sizes[0],)
        expected = f"one number or one for every row ({sizes[0]})"
    if not fits:
        raise ValueError(f"{name} must be {expected}, got shape {values.shape}")


def _rows(name: str, given: Any, sizes: Sequence[int], joint: bool) -> list[np.ndarray]:
    """Return (N,) for every task: the same for all, or (L, N)."""
    values = _positive(name, given)
    shapes = {(n,) for n in sizes}
    if values.ndim == 1 and shapes == {values.shape}:
        return [values] * len(sizes)
    of_tasks = joint and values.ndim == 2 and values.shape[0] == len(sizes)
    if of_tasks and shapes == {values.shape[1:]}:
        return [values[i] for i in range(len(sizes))]
    counts = ", ".join(str(n) for n in sorted(set(sizes)))
    shape = f"({counts},)" + (f" or ({len(sizes)}, {counts})" if joint else "")
    raise ValueError(f"{name} must have shape {shape}, got {values.shape}")


def _positive(name: str, value: Any) -> np.ndarray:
    if backend.is_array(value):
        value = backend.to_numpy(value)
    try:
        values = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if values.dtype.kind not in "iuf":  # strings of digits and True are mistakes too
        raise TypeError(f"{name} must be a number, got {value!r}")
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)) or not np.all(values > 0):
        zero = "; leave rows of weight zero out" if name == "weights" else ""
        raise ValueError(f"{name} must be positive and finite, got {value!r}{zero}")
    return values
