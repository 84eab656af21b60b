"""Estimates with their error bars, coordinate by coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from cofem.backend import Array
from cofem.plot.drawing import BLACK, BLUE, GREY, ORANGE, finish, new_axes, row_of

# More coordinates than this run into each other at the width of a page.
READABLE = 120


def posterior(
    post: Any,
    truth: Array | None = None,
    ax: Any = None,
    *,
    level: float = 0.95,
    window: tuple[int, int] | None = None,
    task: int = 0,
) -> Any:
    """Draw the estimate with its error bars, and the truth where it is known.

    Of more than 120 coordinates it shows those that matter: the support and, where it is
    given, the non-zeros of the truth. If these are too many to read, it shows the 120
    neighbours with most of the support. The title says which.

    Parameters
    ----------
    post : Posterior
        A complex one is shown by its modulus.
    truth : array, shape of ``post.mean``, optional
        Drawn as open circles.
    ax : matplotlib axes, optional
        Where to draw; a new pyplot figure by default.
    level : float
        Probability inside the error bars.
    window : (int, int), optional
        The coordinates [start, stop) to show.
    task : int
        Which row of a joint posterior to show.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from cofem import fit, simulate
    >>> from matplotlib.figure import Figure
    >>> problem = simulate.dct(D=300, seed=0)
    >>> post = fit(problem.phi, problem.y, noise_precision=1e4)
    >>> ax = Figure().subplots()
    >>> posterior(post, problem.z, ax=ax).get_ylabel()
    'z'
    """
    shown = Shown(post, truth, level, window, task)
    ax = new_axes(1)[0] if ax is None else ax
    at = shown.coordinates
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    if shown.truth is not None:
        _circles(ax, at, shown.truth)
    else:
        _stems(ax, at[shown.support], shown.mean[shown.support])
    bars = np.stack([shown.mean - shown.low, shown.high - shown.mean])
    _bars(ax, at, shown.mean, bars, f"estimate, {level:.0%} interval")
    ax.set(xlabel="coordinate", ylabel="|z|" if shown.is_complex else "z")
    finish(ax, f"Posterior: {shown.title}")
    shown.frame(ax)
    return ax


def errors(
    post: Any,
    truth: Array,
    ax: Any = None,
    *,
    level: float = 0.95,
    window: tuple[int, int] | None = None,
    task: int = 0,
) -> Any:
    """Draw estimate minus truth with its error bars, where they are too short to be seen.

    A bar that crosses the zero line covers the truth. The parameters are those of
    :func:`posterior`; coordinates that miss the truth are drawn as crosses.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from cofem import fit, simulate
    >>> from matplotlib.figure import Figure
    >>> problem = simulate.dct(D=300, seed=0)
    >>> post = fit(problem.phi, problem.y, noise_precision=1e4)
    >>> errors(post, problem.z, ax=Figure().subplots()).get_ylabel()
    'estimate − truth'
    """
    shown = Shown(post, truth, level, window, task)
    ax = new_axes(1)[0] if ax is None else ax
    assert shown.truth is not None
    at, error = shown.coordinates, shown.mean - shown.truth
    low, high = shown.low - shown.truth, shown.high - shown.truth
    covers = (low <= 0) & (high >= 0)
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    bars = np.stack([error - low, high - error])
    _bars(ax, at[covers], error[covers], bars[:, covers], f"{level:.0%} interval covers the truth")
    if not covers.all():
        _bars(ax, at[~covers], error[~covers], bars[:, ~covers], "misses it", ORANGE, marker="x")
    ax.set(xlabel="coordinate", ylabel="estimate − truth")
    finish(ax, f"Error: {shown.title}")
    shown.frame(ax)
    return ax


# -- what is shown -----------------------------------------------------------------------


class Shown:
    """The coordinates to draw, in NumPy, and a title that names them."""

    def __init__(
        self,
        post: Any,
        truth: Array | None,
        level: float,
        window: tuple[int, int] | None,
        task: int,
    ) -> None:
        mean = row_of(post.mean, task)
        self.is_complex = bool(np.iscomplexobj(mean))
        if self.is_complex:
            # About its mean the modulus moves with half of the variance.
            half = ndtri(0.5 + level / 2) * np.sqrt(0.5) * row_of(post.std, task)
            mean = np.abs(mean)
            low, high = mean - half, mean + half
        else:
            low, high = (row_of(end, task) for end in post.interval(level))
        true = None if truth is None else row_of(truth, task)
        if true is not None and true.shape != mean.shape:
            raise ValueError(f"truth has shape {true.shape}, the posterior {mean.shape}")
        if true is not None and self.is_complex:
            true = np.abs(true)
        support = row_of(post.support(level), task)
        part, self.title = self._chosen(window, support, mean, true)
        self.coordinates = part
        self.mean, self.low, self.high = mean[part], low[part], high[part]
        self.support = support[part]
        self.truth = None if true is None else true[part]
        self.size = mean.size

    def frame(self, ax: Any) -> None:
        """Show all places where coordinates could be, if those drawn are single ones."""
        if self.coordinates.size != np.ptp(self.coordinates) + 1:
            ax.set_xlim(-0.01 * self.size, 1.01 * self.size)

    @staticmethod
    def _chosen(
        window: tuple[int, int] | None,
        support: np.ndarray,
        mean: np.ndarray,
        truth: np.ndarray | None,
    ) -> tuple[np.ndarray, str]:
        """Return the coordinates to draw, and how the title calls them."""
        if window is None and mean.size <= READABLE:
            return np.arange(mean.size), f"all {mean.size:,} coordinates"
        matters = support.astype(bool) if truth is None else support.astype(bool) | (truth != 0)
        count = int(np.sum(matters))
        if window is None and 0 < count <= READABLE:
            name = "in the support" if truth is None else "in the support or truly not zero"
            return np.flatnonzero(matters), f"the {count:,} of {mean.size:,} coordinates {name}"
        start, stop = window or _busiest(support, mean)
        if not 0 <= start < stop <= mean.size:
            raise ValueError(f"window must lie in 0…{mean.size}, got {window!r}")
        return np.arange(start, stop), f"coordinates {start:,} to {stop - 1:,} of {mean.size:,}"


def _busiest(support: np.ndarray, mean: np.ndarray) -> tuple[int, int]:
    """Return the window with most support; the size of the mean decides between equals."""
    size = np.abs(mean) / max(float(np.sum(np.abs(mean))), np.finfo(float).tiny)
    found = np.concatenate([[0.0], np.cumsum(support + 0.5 * size)])
    start = int(np.argmax(found[READABLE:] - found[:-READABLE]))
    return start, start + READABLE


# -- how it is drawn ---------------------------------------------------------------------


def _stems(ax: Any, at: np.ndarray, height: np.ndarray) -> None:
    ax.vlines(at, 0.0, height, color=GREY, linewidth=0.8, zorder=1)


def _circles(ax: Any, at: np.ndarray, truth: np.ndarray) -> None:
    spikes = truth != 0  # circles around a row of zeros would hide it
    if not spikes.any():
        return
    _stems(ax, at[spikes], truth[spikes])
    ax.plot(
        at[spikes],
        truth[spikes],
        "o",
        markersize=8,
        markerfacecolor="none",
        markeredgecolor=BLACK,
        markeredgewidth=1.0,
        label="truth" if spikes.all() else "truth (where not zero)",
    )


def _bars(
    ax: Any,
    at: np.ndarray,
    middle: np.ndarray,
    bars: np.ndarray,
    label: str,
    color: str = BLUE,
    marker: str = ".",
) -> None:
    ax.errorbar(
        at,
        middle,
        yerr=np.maximum(bars, 0.0),
        fmt=marker,
        markersize=5,
        color=color,
        elinewidth=1.2,
        capsize=2,
        label=label,
    )
