"""How far means have moved, and the warning for everything that ended before it was done."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofem import backend
from cofem.backend import Array
from cofem.solvers import kernels


class ConvergenceWarning(UserWarning):
    """Something was not solved to its tolerance; the message says what to do.

    Examples
    --------
    >>> import warnings, cofem
    >>> from cofem import simulate
    >>> problem = simulate.dct(D=300, seed=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     post = cofem.fit(problem.phi, problem.y, noise_precision=1e4, max_iter=2)
    >>> caught[0].category.__name__, post.converged
    ('ConvergenceWarning', False)
    """


def relative_change(new: Sequence[Array], old: Sequence[Array]) -> float:
    """‖μ_new − μ_old‖ / ‖μ_new‖ over all tasks; 0/0 counts as no change.

    Examples
    --------
    >>> import numpy as np
    >>> relative_change([np.array([3.0, 4.0])], [np.array([3.0, 4.5])])
    0.1
    """
    distance, size = moved(new, old)
    if distance == 0.0:
        return 0.0
    return math.sqrt(distance / size) if size > 0 else math.inf


def moved(new: Sequence[Array], old: Sequence[Array]) -> tuple[float, float]:
    """Return ‖μ_new − μ_old‖² and ‖μ_new‖² over all tasks."""
    distance = size = 0.0
    for a, b in zip(new, old, strict=True):
        if backend.is_numpy(a):
            far, long = kernels.moved(a.ravel(), backend.to_numpy(b).ravel())
            distance, size = distance + far, size + long
            continue
        xp = backend.namespace(a)
        both = xp.stack([xp.sum(backend.abs_squared(a - b)), xp.sum(backend.abs_squared(a))])
        pair = backend.to_numpy(both)  # one transfer
        distance, size = distance + float(pair[0]), size + float(pair[1])
    return distance, size
