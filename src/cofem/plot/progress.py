"""How a fit was reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from cofem.plot.drawing import BLUE, new_axes, plain


def history(post: Any, axes: Sequence[Any] | None = None) -> Any:
    """Draw the relative change of the mean and the CG steps of every iteration.

    A method that solves exactly takes no steps of conjugate gradients; the time is drawn in
    their place.

    Parameters
    ----------
    post : Posterior
    axes : two matplotlib axes, optional
        Where to draw; a new pyplot figure by default.

    Returns
    -------
    np.ndarray of two matplotlib axes

    Examples
    --------
    >>> from cofem import fit, simulate
    >>> from matplotlib.figure import Figure
    >>> problem = simulate.dct(D=300, seed=0)
    >>> post = fit(problem.phi, problem.y, noise_precision=1e4, method="cofem")
    >>> [ax.get_ylabel() for ax in history(post, axes=Figure().subplots(2))]
    ['relative change of the mean', 'CG steps']
    """
    pair = np.ravel(np.asarray(new_axes(2) if axes is None else axes, dtype=object))
    if pair.size != 2:
        raise ValueError(f"axes must be two matplotlib axes, got {pair.size}")
    top, bottom = pair
    iteration = np.asarray(post.history["iteration"])
    change = np.asarray(post.history["change"], dtype=float)
    # Nothing to show on a log axis: no change at all, or no mean before the first.
    visible = np.isfinite(change) & (change > 0)
    top.plot(iteration[visible], change[visible], "o-", color=BLUE, markersize=4)
    top.set_yscale("log")
    top.set_ylabel("relative change of the mean")
    top.set_title(f"{post.method}: {_ending(post)}", loc="left")
    steps = np.asarray(post.history["cg_steps"])
    if steps.any():
        bottom.bar(iteration, steps, color=BLUE, width=0.8)
        bottom.set_ylabel("CG steps")
        bottom.yaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        bottom.plot(iteration, post.history["seconds"], "o-", color=BLUE, markersize=4)
        bottom.set_ylabel("seconds since the start")
    bottom.set_xlabel("iteration")
    for ax in pair:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlim(iteration.min() - 0.5, iteration.max() + 0.5)
        plain(ax)
    return pair


def _ending(post: Any) -> str:
    iterations = len(post.history["iteration"])
    return f"{'converged' if post.converged else 'not converged'} after {iterations} iterations"
