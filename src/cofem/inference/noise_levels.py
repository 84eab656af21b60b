"""Joint tasks with noise of their own: which of them are alike.

Tasks with one operator and one noise precision share their covariance, and so most of the
work. So tasks whose noise is nearly the same, or cannot be told apart, are given the same;
the others get their own. Weights are noise precisions relative to their geometric mean
over all data: with them, the description of the data is as long in one unit as in another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Noise precisions within this factor are one, and those within so many standard errors.
ALIKE, SURE = 2.0, 4.0
# No task is believed to be cleaner or noisier than the others by more than this factor.
FARTHEST = 1e8


def noise_weights(
    residuals: Sequence[float], unused: Sequence[float], reals: int = 1
) -> list[float]:
    """Return one weight per task, the same for tasks that are alike.

    Parameters
    ----------
    residuals : list of float
        ‖y − Φμ‖² of every task; 0 for a task without data of its own, which says nothing.
    unused : list of float
        The data of every task less what its fit has used up.
    reals : int
        Real numbers in a datum.

    Examples
    --------
    Two tasks of 100 data with noise of variance 1, and one with 100:

    >>> [round(w, 3) for w in noise_weights([98.0, 105.0, 9900.0], [100.0] * 3)]
    [4.603, 4.603, 0.047]
    >>> noise_weights([98.0, 105.0, 120.0], [100.0] * 3)
    [1.0, 1.0, 1.0]
    """
    total = math.fsum(unused)
    pooled = total / math.fsum(residuals) if math.fsum(residuals) > 0 else 1.0
    logs = [
        math.log(min(max(u / r / pooled, 1 / FARTHEST), FARTHEST)) if r > 0 else 0.0
        for r, u in zip(residuals, unused, strict=True)
    ]
    groups = _alike(logs, [math.sqrt(2 / (reals * max(u, 1.0))) for u in unused])
    if len(groups) == 1:
        return [1.0] * len(logs)
    levels = [0.0] * len(logs)
    for members in groups:
        spare = math.fsum(unused[i] for i in members)
        left = math.fsum(residuals[i] for i in members)
        level = math.log(spare / left / pooled) if left > 0 else 0.0
        for i in members:
            levels[i] = min(max(level, -math.log(FARTHEST)), math.log(FARTHEST))
    middle = math.fsum(u * x for u, x in zip(unused, levels, strict=True)) / total
    return [math.exp(x - middle) for x in levels]


def alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two sets of weights are nearly the same."""
    most = 0.5 * math.log(ALIKE)
    return all(abs(math.log(a / b)) < most for a, b in zip(one, other, strict=True))


def merged(precisions: Sequence[float]) -> list[float]:
    """Give nearly equal noise precisions their geometric mean.

    Examples
    --------
    >>> [round(b, 1) for b in merged([1.0, 1.2, 100.0])]
    [1.1, 1.1, 100.0]
    """
    logs = [math.log(b) for b in precisions]
    out = list(precisions)
    for members in _alike(logs, [0.0] * len(logs)):
        if len({precisions[i] for i in members}) > 1:
            mean = math.exp(math.fsum(logs[i] for i in members) / len(members))
            for i in members:
                out[i] = mean
    return out


def _alike(logs: Sequence[float], errors: Sequence[float]) -> list[list[int]]:
    """Group the tasks, from the least upwards: nobody is far from the first of a group."""
    groups: list[list[int]] = []
    for i in sorted(range(len(logs)), key=lambda i: logs[i]):
        if groups:
            first = groups[-1][0]
            apart = logs[i] - logs[first]
            if apart <= max(math.log(ALIKE), SURE * math.hypot(errors[i], errors[first])):
                groups[-1].append(i)
                continue
        groups.append([i])
    return groups
