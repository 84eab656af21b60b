"""Readouts of a Cartesian scan, put where they belong in k-space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem.mri.transform import to_image, to_kspace


@dataclass(frozen=True)
class Readout:
    """One line of samples of all coils.

    Attributes
    ----------
    contrast, plane, row : int
        Where it belongs on the grid.
    column : int
        Where its first sample belongs.
    data : array (coils, samples)
    """

    contrast: int
    plane: int
    row: int
    column: int
    data: np.ndarray


def on_grid(
    readouts: Sequence[Readout], shape: tuple[int, int, int], columns: int
) -> dict[str, Any]:
    """Return k-space, its mask and whether it has an axis of coils.

    Readouts of the same place are averaged. Oversampling along the readout is cut away in the
    image, which costs nothing there. Of partial echoes it is kept: with columns missing, what
    was measured is no longer a set of samples of the narrower image.

    Parameters
    ----------
    readouts : sequence of Readout
    shape : (planes, rows, columns)
        As measured.
    columns : int
        Without oversampling.

    Examples
    --------
    >>> line = Readout(0, 0, 1, 0, np.ones((1, 4)))
    >>> on_grid([line], (1, 2, 4), 2)["mask"]
    array([[[False, False],
            [ True,  True]]])
    """
    count, coils = 1 + max(r.contrast for r in readouts), len(readouts[0].data)
    y = np.zeros((count, coils, *shape), dtype=np.complex128)
    counts = np.zeros((count, *shape), dtype=int)
    for r in readouts:
        there = slice(r.column, r.column + r.data.shape[1])
        y[r.contrast, :, r.plane, r.row, there] += r.data
        counts[r.contrast, r.plane, r.row, there] += 1
    y /= np.maximum(counts, 1)[:, None]
    mask = counts > 0
    whole = bool(np.all(mask.any(-1) == mask.all(-1)))
    if columns < shape[2] and whole:
        start = shape[2] // 2 - columns // 2
        y = to_kspace(to_image(y, n_axes=1)[..., start : start + columns], n_axes=1)
        mask = mask[..., :columns]
        y *= mask[:, None]
    if shape[0] == 1:
        y, mask = y[:, :, 0], mask[:, 0]
    several = coils > 1
    return {"kspace": y if several else y[:, 0], "coils": several, "mask": mask.copy()}
