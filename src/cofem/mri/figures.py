"""Pictures of a reconstruction: masks, images, error bars, and errors where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cofem import backend
from cofem.mri.result import Reconstruction

ERROR_SCALE = 15  # times brighter than the image, as in the paper's figure
LEVELS = np.linspace(0.05, 0.99, 40)


def reconstruction_figure(
    found: Reconstruction, mask: Any, truth: Any = None, names: list[str] | None = None
) -> Figure:
    """Draw masks, images, standard deviations and, with a truth, errors and calibration.

    Parameters
    ----------
    found : Reconstruction
        Two image axes; of three the middle slice is drawn.
    mask : boolean array (L, H, W), or what broadcasts to it
    truth : array (L, H, W), optional
    names : list of str, optional
        Of the contrasts.

    Examples
    --------
    >>> from cofem import mri
    >>> x = mri.phantom((32, 32), n_contrasts=1)
    >>> found = mri.reconstruct(mri.to_kspace(x), real=True)
    >>> len(reconstruction_figure(found, np.ones((32, 32), bool), x).axes) >= 4
    True
    """
    image, std = backend.to_numpy(found.image), backend.to_numpy(found.std)
    sampled = np.broadcast_to(np.asarray(mask, dtype=bool), image.shape)
    reference = None if truth is None else np.asarray(truth)
    if reference is not None and reference.shape != image.shape:
        raise ValueError(f"truth has shape {reference.shape}; expected {image.shape}")
    names = [f"contrast {i + 1}" for i in range(len(image))] if names is None else names
    rows: list[tuple[str, Any]] = [("samples", sampled), ("image", np.abs(image)), ("std", std)]
    if reference is not None:
        rows.insert(2, ("|error|", np.abs(image - reference)))
    n_columns = len(image) + (reference is not None)
    figure = Figure(figsize=(2.4 * n_columns, 2.4 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), n_columns, squeeze=False)
    brightest = np.abs(image).max()
    tops = {
        "samples": 1.0,
        "image": brightest,
        "|error|": brightest / ERROR_SCALE,
        "std": std.max(),
    }
    for i, (title, pictures) in enumerate(rows):
        for j, picture in enumerate(pictures):
            axis = axes[i, j]
            shown = axis.imshow(
                _slice(picture), cmap="gray", vmin=0, vmax=tops[title], interpolation="nearest"
            )
            axis.set_xticks([])
            axis.set_yticks([])
            if i == 0:
                axis.set_title(names[j], fontsize=9)
            if j == 0:
                axis.set_ylabel(title, fontsize=9)
        if title != "samples":
            bar = figure.colorbar(shown, ax=list(axes[i, : len(pictures)]), pad=0.01)
            bar.set_label(f"{title}, units of the image", fontsize=7)
            bar.ax.tick_params(labelsize=7)
    if reference is not None:
        _calibration(axes[0, -1], image, std, reference)
        _scatter(axes[1, -1], image, std, reference)
        for row in axes[2:]:
            row[-1].set_axis_off()
    return figure


def coverage(
    image: np.ndarray, std: np.ndarray, truth: np.ndarray, levels: np.ndarray = LEVELS
) -> np.ndarray:
    """Return how often the truth lies within the interval of each level, where it is not zero.

    Complex errors are compared with the circular law, |error|² exponential.

    Examples
    --------
    >>> coverage(np.zeros(4), np.ones(4), np.array([0.1, 1.0, 1.9, 3.0]), np.array([0.95]))
    array([0.75])
    """
    from scipy.stats import norm

    inside = np.broadcast_to(np.any(np.abs(truth) > 0, axis=0), truth.shape)
    ratio = np.abs(image - truth)[inside] / np.maximum(std[inside], 1e-300)
    circular = np.iscomplexobj(image)
    limits = np.sqrt(-np.log1p(-levels)) if circular else norm.ppf((1 + levels) / 2)
    return np.array([np.mean(ratio <= limit) for limit in limits])


def _calibration(axis: Any, image: np.ndarray, std: np.ndarray, truth: np.ndarray) -> None:
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axis.plot(LEVELS, coverage(image, std, truth, LEVELS), color="C0")
    axis.set_xlabel("level of the interval", fontsize=8)
    axis.set_ylabel("truth inside", fontsize=8)
    axis.set_title("calibration", fontsize=9)
    axis.tick_params(labelsize=7)
    axis.set_aspect("equal")


def _scatter(axis: Any, image: np.ndarray, std: np.ndarray, truth: np.ndarray) -> None:
    """Draw the root mean square error of pixels with about the same standard deviation."""
    inside = np.broadcast_to(np.any(np.abs(truth) > 0, axis=0), truth.shape)
    s, e = std[inside], np.abs(image - truth)[inside]
    order = np.argsort(s)
    groups = np.array_split(order, 30)
    x = np.array([np.sqrt(np.mean(s[g] ** 2)) for g in groups])
    y = np.array([np.sqrt(np.mean(e[g] ** 2)) for g in groups])
    top = max(x.max(), y.max())
    axis.plot([0, top], [0, top], color="0.7", linewidth=1)
    axis.plot(x, y, ".", color="C0", markersize=4)
    axis.set_xlabel("std", fontsize=8)
    axis.set_ylabel("rms error", fontsize=8)
    axis.locator_params(nbins=4)
    axis.set_title(f"correlation {np.corrcoef(s, e)[0, 1]:.2f}", fontsize=9)
    axis.tick_params(labelsize=7)


def _slice(picture: np.ndarray) -> np.ndarray:
    return picture if picture.ndim == 2 else picture[picture.shape[0] // 2]
