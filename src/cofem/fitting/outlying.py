"""Rows of the data that are further from the fit than normal noise can be: they are named.

A dead channel or a spike in a sensor is not what the model calls noise. A few such rows make the
noise look so large that nothing is found, and nothing else shows it. So the residuals are looked
at when a fit is done. Their scale is their median, which a few outliers hardly change, and a row is
named if among as many normal residuals the largest one is so far away in one fit of
1 / FALSE_ALARM.

A residual y − Φμ has the standard deviation √((1 − h)/β), where h = β φᵀΣφ is the share of the row
that the fit has explained, if the prior is normal. Under a spike and slabs Σ also holds that it is
not known which coordinates are zero; then a residual counts as it is, and only their median is that
of residuals over √(1 − h), which names rather too few rows than too many. These shares cost linear
systems, so they are computed only where a row is far away as it is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, erfc, erfinv

from cofem import backend
from cofem.learning.learned import Learned
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Task
from cofem.operators.centred import unreduced
from cofem.operators.realified import Realified
from cofem.result.posterior import Posterior

# How often a fit to data with normal noise names a row, or doubts what was said of the data.
FALSE_ALARM = 1e-4
# Of fewer rows the scale is hardly known.
FEWEST = 8
# Of the quadrature over the law of the median: its points, and the probability below the first one.
POINTS, LEAST_SHARE = 4000, 1e-30
# The largest bound, in medians.
FURTHEST = 1e12
# The fit explains at most this share of a row.
MOST_EXPLAINED = 1 - 1e-9
# As many rows are named.
NAMED = 10
FAR_AWAY = "rows of y are further from the fit than normal noise can be"

# The number of a task, and the absolute residuals of its rows.
Residuals = tuple[int, np.ndarray]


def with_rows_named(
    post: Posterior, learned: Learned, heard: Model, phi: Any
) -> tuple[Posterior, str]:
    """Return the posterior, and which rows are further away than normal noise allows.

    Its message says so too. Whether the fit has converged is another question: of noise with heavy
    tails a few rows are always far away, and the answer is as good as the others.

    Parameters
    ----------
    post : Posterior
    learned : Learned
        The same; its message gets the sentence too, and its history the products made here.
    heard : Model
        Its tasks have the directions that hold data (:mod:`cofem.fitting.silent`).
    phi
        As for :func:`cofem.fit`.
    """
    found, tasks = learned.outcome.found, learned.model.tasks
    early = found.verdict in (Verdict.STOPPED, Verdict.AS_ASKED, Verdict.DIVERGED)
    if early or any(task.operator.splits_rows for task in tasks):
        return post, ""
    normal = post.prior == "ard" or found.verdict is Verdict.DENSE
    n_data = [task.operator.shape[0] for task in heard.tasks]
    why = _named(post, _far_away(learned, n_data), phi, normal)
    if why:
        found.note += f"; {why}"
    return replace(post, message=found.message), why


def _far_away(learned: Learned, n_data: list[int]) -> list[Residuals]:
    """Return the residuals of the tasks in which a row is far away as it is."""
    model, found = learned.model, learned.outcome.found
    suspicious = []
    for family in model.families:
        means = backend.namespace(family.y).stack([found.means[i] for i in family.members])
        left = backend.to_numpy(family.y - family.operator.forward(means))
        found.history["products"][-1] += len(left)
        for residual, i in zip(left, family.members, strict=True):
            sizes = _sizes(residual, model.tasks[i])
            limit = _limit(sizes, n_data[i], model.tasks[i], len(model.tasks))
            if np.any(sizes > limit):
                suspicious.append((i, sizes))
    return suspicious


def _named(post: Posterior, suspicious: list[Residuals], phi: Any, normal: bool) -> str:
    """Say which rows are further from the fit than normal noise allows; nothing, if none is."""
    rows, total, joint = [], 0, len(post.tasks) > 1
    for i, sizes in suspicious:
        task = post.tasks[i]
        of_task = phi[i] if isinstance(phi, (list, tuple)) and joint else phi
        std = backend.to_numpy(post.predict(of_task, noise=False)[1])
        weights = 1.0 if task.weights is None else task.weights
        explained = task.noise_precision * weights * (std[i] if std.ndim == 2 else std) ** 2
        whole = sizes / np.sqrt(1 - np.minimum(explained, MOST_EXPLAINED))
        sizes = whole if normal else sizes
        far = np.flatnonzero(sizes > _limit(whole, len(sizes), task, len(post.tasks)))
        rows += [f"{j} of task {i}" if joint else f"{j}" for j in far[np.argsort(-sizes[far])]]
        total += len(sizes)
    if not rows:
        return ""
    named = ", ".join(rows[:NAMED]) + (", …" if len(rows) > NAMED else "")
    return (
        f"{len(rows)} of {total} {FAR_AWAY} "
        f"(row{'s' * (len(rows) > 1)} {named}). Gross errors spoil a fit: leave such rows out, or "
        "make them unknowns too; noise with heavy tails does little harm (see docs/noise.md, rows "
        "that are wrong)"
    )


def _limit(sizes: np.ndarray, n_data: int, task: Task, tasks: int) -> float:
    """Return what all residuals of a task stay below if they are normal."""
    free = min(n_data, int(np.count_nonzero(sizes)))
    if free < FEWEST:
        return math.inf
    middle = len(sizes) - free + free // 2  # behind those that are zero
    axes = 2 if backend.is_complex(task.y) or isinstance(task.operator, Realified) else 1
    return float(np.partition(sizes, middle)[middle]) * bound(free, axes, FALSE_ALARM / tasks)


@lru_cache
def bound(n: int, axes: int, alarm: float) -> float:
    """Return what n normal residuals over their median stay below, but with probability ``alarm``.

    The median's law is that of an order statistic, and the largest residual hardly depends on it.

    Parameters
    ----------
    n : int
    axes : int
        2 for complex residuals, else 1.
    alarm : float

    Examples
    --------
    >>> round(bound(20, 1, 1e-4), 1), round(bound(1000, 1, 1e-4), 1), round(bound(1000, 2, 1e-4), 1)
    (12.5, 8.0, 4.9)
    """
    edges = np.linspace(math.log(LEAST_SHARE), 0.0, POINTS + 1)
    share = np.exp((edges[1:] + edges[:-1]) / 2)  # of the law of the median, below
    weight = np.diff(np.exp(edges))
    below = betaincinv(n // 2 + 1.0, n - n // 2, share)
    # What |ε| is below with this probability, E|ε|² = 1.
    middle = math.sqrt(2) * erfinv(below) if axes == 1 else np.sqrt(-np.log1p(-below))

    def surplus(log_c: float) -> float:
        size = math.exp(log_c) * middle
        beyond = erfc(size / math.sqrt(2)) if axes == 1 else np.exp(-(size**2))
        return n * float(weight @ beyond) - alarm

    top = math.log(FURTHEST)
    return math.exp(brentq(surplus, 0.0, top)) if surplus(top) < 0 else math.inf


def _sizes(residual: np.ndarray, task: Task) -> np.ndarray:
    """Return the absolute residuals in the user's rows.

    Rows with a noise precision of their own are in units of it, as the task has them.
    """
    if isinstance(task.operator, Realified):
        n = len(residual) // 2
        residual = (residual[:n] + 1j * residual[n:]) / math.sqrt(2)
    if task.intercept is not None:
        n = len(residual) + 1
        unit = np.ones(n) if task.weights is None else np.sqrt(task.weights)
        residual = np.asarray(unreduced(residual, unit / np.linalg.norm(unit)))
    return np.asarray(np.abs(residual), dtype=np.float64)
