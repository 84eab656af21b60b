"""How well estimated spikes agree with those that an electrode recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def binned_correlation(estimate: np.ndarray, truth: np.ndarray, width: int) -> float:
    """Pearson's correlation of the sums over windows of ``width`` frames.

    The last window may be shorter. NaN if one of them is constant.

    Examples
    --------
    >>> binned_correlation(np.array([0.0, 2.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0]), 2)
    1.0
    """
    starts = np.arange(0, len(truth), width)
    a, b = np.add.reduceat(estimate, starts), np.add.reduceat(truth, starts)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(round(np.corrcoef(a, b)[0, 1], 15))


class Detection(NamedTuple):
    """How many events were found, and how many of the found are right."""

    f1: float
    precision: float
    recall: float


def detection(true_times: np.ndarray, times: np.ndarray, tolerance: float = 0.1) -> Detection:
    """Match events to spikes one to one within ± ``tolerance`` seconds.

    Both are walked through in order of time, which makes the number of pairs the
    largest possible.

    Examples
    --------
    >>> detection(np.array([1.0, 2.0]), np.array([1.05, 1.08, 5.0])).recall
    0.5
    """
    true_times, times = np.sort(true_times), np.sort(times)
    pairs = i = j = 0
    while i < len(true_times) and j < len(times):
        if abs(true_times[i] - times[j]) <= tolerance:
            pairs, i, j = pairs + 1, i + 1, j + 1
        elif true_times[i] < times[j]:
            i += 1
        else:
            j += 1
    total = len(true_times) + len(times)
    return Detection(
        2 * pairs / total if total else 1.0,
        pairs / len(times) if len(times) else 1.0,
        pairs / len(true_times) if len(true_times) else 1.0,
    )


def real_events(
    times: np.ndarray, probabilities: np.ndarray, true_times: np.ndarray, tolerance: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Return which events are real, by two counts, each a mask of the shape of ``times``.

    A spike within ``tolerance`` is too lenient: near a burst noise has one too. A spike
    of its own, given away in order of probability, is too strict: of a doublet that is
    seen as three events one goes without. Probabilities should lie between the two.

    Examples
    --------
    >>> real_events(np.array([1.0, 1.02, 5.0]), np.array([0.9, 0.5, 0.4]), np.array([1.05]))
    (array([ True,  True, False]), array([ True, False, False]))
    """
    near, own = np.zeros(len(times), bool), np.zeros(len(times), bool)
    free = np.ones(len(true_times), bool)
    for i in np.argsort(-probabilities, kind="stable"):
        away = np.abs(true_times - times[i])
        near[i] = np.any(away <= tolerance)
        away[~free] = np.inf
        if np.any(away <= tolerance):
            own[i] = True
            free[np.argmin(away)] = False
    return near, own
