"""Readouts of a Cartesian scan, put where they belong in k-space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


def calibration_on_grid(
    readouts: Sequence[Readout], shape: tuple[int, int, int], columns: int
) -> np.ndarray:
    """Return k-space (coils, [planes,] rows, columns) of separate calibration readouts.

    They may be shorter than those of the images, and lie on the same grid. Zero elsewhere.

    Parameters
    ----------
    readouts : sequence of Readout
    shape : (planes, rows, columns)
        Of the images, as measured.
    columns : int
        Of the images, oversampling cut away or not.
    """
    lines = [replace(r, contrast=0) for r in readouts]
    first = max(r.column for r in lines)
    last = min(r.column + r.data.shape[1] for r in lines)
    found = on_grid(lines, shape, shape[2])
    y, mask = found["kspace"], found["mask"][0]
    y = y[0] if found["coils"] else y
    if columns < shape[2]:
        # In the image, as for whole readouts; only the samples inside the short ones stay.
        start, middle, factor = shape[2] // 2 - columns // 2, shape[2] // 2, columns / shape[2]
        y = to_kspace(to_image(y, n_axes=1)[..., start : start + columns], n_axes=1)
        places = np.arange(columns) - columns // 2
        inside = (places >= (first - middle) * factor) & (places < (last - middle) * factor)
        y = y * (mask.any(axis=-1)[..., None] & inside)
    return np.asarray(y)


def scanner_affine(
    sides: tuple[int, int, int],
    steps: tuple[float, float, float],
    directions: np.ndarray,
    position: np.ndarray,
) -> np.ndarray:
    """Return the affine from indices (row, column, slice) to millimetres, in NIfTI's RAS axes.

    Parameters
    ----------
    sides : (rows, columns, slices)
    steps : millimetres between rows, columns, slices
    directions : array (3, 3)
        Rows: where rows, columns and slices go, in the patient (LPS, as DICOM).
    position : array (3,)
        The middle of the image there.

    Examples
    --------
    >>> scanner_affine((4, 4, 1), (2, 1, 5), np.eye(3), np.zeros(3))[:2]
    array([[-2.,  0.,  0.,  4.],
           [ 0., -1.,  0.,  2.]])
    """
    affine = np.eye(4)
    affine[:3, :3] = np.asarray(directions, dtype=float).T * steps
    middle = np.array([side // 2 for side in sides])
    affine[:3, 3] = np.asarray(position, dtype=float) - affine[:3, :3] @ middle
    return np.asarray(np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine)
