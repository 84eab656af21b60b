"""Colours and axes that all pictures share.

The colours are of Okabe and Ito's palette, and shapes and brightness differ too, so
nothing depends on colour alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend

BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#999999", "#000000"


def new_axes(rows: int) -> np.ndarray:
    """Return ``rows`` axes under each other, of a new pyplot figure."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(
        rows, sharex=True, squeeze=False, figsize=(9, 2.0 + 2.2 * rows), layout="constrained"
    )
    return np.asarray(axes[:, 0], dtype=object)


def finish(ax: Any, title: str) -> None:
    """Give axes their title and legend."""
    ax.margins(x=0.01)
    rows = -(-len(ax.get_legend_handles_labels()[1]) // 2)
    ax.set_title(title, loc="left", pad=8 + 16 * rows)  # above the legend, whose rows are 16 high
    plain(ax)
    # Above the axes, so that it never lies on the data, and under the title.
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        frameon=False,
        borderaxespad=0.0,
        handletextpad=0.4,
    )


def plain(ax: Any) -> None:
    """Take away the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


def row_of(x: Any, task: int) -> np.ndarray:
    """Return the row of a task, or ``x`` itself if there is one task only."""
    values = backend.to_numpy(x)
    return values if values.ndim == 1 else np.asarray(values[task])
