"""Pictures of a whole posterior at once: which coordinates are active, images, traces."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem import backend
from cofem.plot.drawing import BLACK, BLUE, GREY, ORANGE, finish, new_axes, row_of


def support(post: Any, ax: Any = None, *, level: float = 0.95, task: int = 0) -> Any:
    """Draw the certainty that each coordinate is not zero against the size of its mean.

    Under the learned prior that is the probability that the coordinate is not zero, under
    "ard" its standard deviation.

    Parameters
    ----------
    post : Posterior
    ax : matplotlib axes, optional
        Where to draw; a new pyplot figure by default.
    level : float
        Level of the support.
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
    >>> post = fit(problem.phi, problem.y)
    >>> support(post, ax=Figure().subplots()).get_ylabel()
    'probability of not being zero'
    """
    ax = new_axes(1)[0] if ax is None else ax
    size, std = np.abs(row_of(post.mean, task)), row_of(post.std, task)
    known = getattr(post, "probability", None) is not None
    height = row_of(post.probability, task) if known else std
    inside = row_of(post.support(level), task).astype(bool)
    tiny = np.finfo(np.float64).tiny
    for mask, color, marker, label in (
        (~inside, GREY, ".", f"not in the support ({np.sum(~inside):,})"),
        (inside, BLUE, "o", f"support at {level:.0%} ({np.sum(inside):,})"),
    ):
        # Dots in thousands are one picture, not thousands of shapes in a file.
        ax.plot(
            np.maximum(size[mask], tiny),
            np.maximum(height[mask], tiny),
            marker,
            color=color,
            markersize=4,
            label=label,
            rasterized=True,
        )
    ax.set(xlabel="|mean|", xscale="log")
    if known:
        ax.set(ylabel="probability of not being zero", ylim=(-0.03, 1.03))
    else:
        ax.set(ylabel="standard deviation", yscale="log")
    shown = size[size > tiny]
    if shown.size:  # means of nothing but rounding would stretch the axis over decades
        ax.set_xlim(left=max(float(shown.min()), 1e-8 * float(shown.max())))
    finish(ax, "Support")
    return ax


def variance_map(
    post: Any,
    shape: tuple[int, int],
    ax: Any = None,
    *,
    quantity: str = "std",
    task: int = 0,
    unit: str = "units of z",
) -> Any:
    """Draw a posterior of an image: its standard deviation, variance or mean.

    Parameters
    ----------
    post : Posterior
        With as many coordinates as the image has pixels.
    shape : (int, int)
        Rows and columns.
    ax : matplotlib axes, optional
        Where to draw; a new pyplot figure by default.
    quantity : {"std", "variance", "mean"}
        What to show; the modulus of a complex mean.
    task : int
        Which row of a joint posterior to show.
    unit : str
        What the colour bar says behind the quantity.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, cofem
    >>> from matplotlib.figure import Figure
    >>> post = cofem.posterior(np.eye(6), np.ones(6), precision=np.ones(6), noise_precision=1.0)
    >>> variance_map(post, (2, 3), ax=Figure().subplots()).get_title(loc="left")
    'std'
    """
    if quantity not in ("std", "variance", "mean"):
        raise ValueError(f'quantity must be "std", "variance" or "mean", got {quantity!r}')
    values = row_of(getattr(post, quantity), task)
    if len(shape) != 2 or shape[0] * shape[1] != values.size:
        raise ValueError(f"shape must hold {values.size} pixels in two axes, got {shape!r}")
    ax = new_axes(1)[0] if ax is None else ax
    values = np.abs(values) if np.iscomplexobj(values) else values
    drawn = ax.imshow(values.reshape(shape), cmap="gray" if quantity == "mean" else "magma")
    power = "²" if quantity == "variance" else ""
    ax.figure.colorbar(drawn, ax=ax, shrink=0.85, label=f"{quantity} ({unit}){power}")
    ax.set_title(quantity, loc="left")
    ax.set(xticks=[], yticks=[])
    return ax


def traces(post: Any, y: Any = None, ax: Any = None, *, rate: float = 1.0, task: int = 0) -> Any:
    """Draw the data and the most probable fit, with a band of twice the noise's deviation.

    Parameters
    ----------
    post : Posterior
        With its operator: from ``fit``, or loaded with ``phi``.
    y : array (N,), optional
        The data; those of the fit by default.
    ax : matplotlib axes, optional
        Where to draw; a new pyplot figure by default.
    rate : float
        Samples per second; 1 counts samples.
    task : int
        Which row of a joint posterior to show.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, cofem
    >>> from matplotlib.figure import Figure
    >>> phi = cofem.operators.Autoregressive((0.9,), n=50)
    >>> y = phi.forward(np.eye(50)[10])
    >>> post = cofem.fit(phi, y, noise_precision=100.0, nonnegative=True)
    >>> traces(post, ax=Figure().subplots(), rate=10.0).get_xlabel()
    'seconds'
    """
    if not rate > 0:
        raise ValueError(f"rate must be positive, got {rate!r}")
    if not post.tasks:
        raise ValueError("traces needs the operator: load the posterior with cofem.load(path, phi)")
    ax = new_axes(1)[0] if ax is None else ax
    operator = post.tasks[task].operator
    data = backend.to_numpy(post.tasks[task].y if y is None else y)
    # The mode: of z ≥ 0 many small means would add up to a fit above the data.
    best = post.mode if post.mode.ndim == 1 else post.mode[task, :]
    fitted = backend.to_numpy(operator.forward(best))
    noise = float(np.atleast_1d(post.noise_precision)[task if np.ndim(post.noise_precision) else 0])
    at = np.arange(fitted.size) / rate
    ax.plot(at, np.real(data), color=GREY, linewidth=0.8, label="data")
    band = 2 / np.sqrt(noise)
    ax.fill_between(
        at,
        np.real(fitted) - band,
        np.real(fitted) + band,
        color=BLUE,
        alpha=0.2,
        linewidth=0,
        label="two standard deviations of the noise",
    )
    ax.plot(at, np.real(fitted), color=BLUE, linewidth=1.2, label="fit")
    inside = row_of(post.support(), task).astype(bool)
    if inside.size == fitted.size and inside.any():
        low = float(min(np.real(data).min(), np.real(fitted).min()))
        ax.plot(
            at[inside],
            np.full(inside.sum(), low),
            "|",
            color=ORANGE,
            markersize=9,
            markeredgewidth=1.5,
            label="support",
        )
    ax.axhline(0.0, color=BLACK, linewidth=0.4, zorder=0)
    ax.set(xlabel="seconds" if rate != 1.0 else "sample", ylabel="signal")
    finish(ax, "Data and fit")
    return ax
