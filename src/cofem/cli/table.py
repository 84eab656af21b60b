"""A posterior as a table: one line for every unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_posterior(post: Any, path: Path) -> None:
    """Write mean, standard deviation, 95 % interval and support of every unknown as a .csv.

    Joint tasks stand below each other and have their number in the first column. Complex
    unknowns have two columns for their mean, and no interval.
    """
    import numpy as np

    from cofem.files import write_table
    from cofem.result.columns import columns_of

    shape = post.gaussian_mean.shape
    index = np.indices(shape)
    columns = {"task": index[0]} if len(shape) == 2 else {}
    columns |= {"index": index[-1], **columns_of(post)}
    write_table(path, {name: values.reshape(-1) for name, values in columns.items()})
