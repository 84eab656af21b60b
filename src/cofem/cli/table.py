"""A posterior as a table: one line for every unknown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def write_posterior(post: Any, path: Path) -> None:
    """Write mean, standard deviation, 95 % interval and support of every unknown as a .csv.

    Joint tasks stand below each other and have their number in the first column. Complex
    unknowns have two columns for their mean, and no interval.
    """
    from cofem.files import write_table

    write_table(path, columns_of(post))


def columns_of(post: Any) -> dict[str, np.ndarray]:
    """Return the columns of the table, each of length D, or L·D for joint tasks."""
    import numpy as np

    from cofem import backend

    def flat(values: Any) -> np.ndarray:
        values = values if not backend.is_array(values) else backend.to_numpy(values)
        return np.broadcast_to(values, mean.shape).reshape(-1)

    mean = backend.to_numpy(post.mean)
    columns: dict[str, np.ndarray] = {}
    if mean.ndim == 2:
        columns["task"] = flat(np.arange(mean.shape[0])[:, None])
    columns["index"] = flat(np.arange(mean.shape[-1]))
    if np.iscomplexobj(mean):
        columns |= {"mean_real": flat(mean.real), "mean_imag": flat(mean.imag)}
        columns["std"] = flat(post.std)
    else:
        low, high = post.interval(0.95)
        columns |= {"mean": flat(mean), "std": flat(post.std), "low": flat(low), "high": flat(high)}
    probability = getattr(post, "probability", None)
    if probability is not None:
        columns["probability"] = flat(probability)
    columns["support"] = flat(post.support())
    return columns
