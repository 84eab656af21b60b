"""When a fit has settled, and the warning for everything that ended before it was done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from cofem import backend
from cofem.backend import Array
from cofem.linalg import kernels


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


# Iterations between two looks at how far the mean has come.
WINDOW = 20


@final
class Drift:
    """Whether random probes are all that still moves the mean.

    Probes are drawn anew in every iteration, and so the mean never rests: at low signal to
    noise its relative change stalls above any small tolerance. But it only trembles. With
    distances d₁ and d₂ to the means one and two windows of w iterations ago, tremor alone
    gives d₁² = d₂², and a drift by δ in every iteration adds (wδ)² to the one and (2wδ)²
    to the other: δ² = (d₂² − d₁²) / 3w². The mean has settled when δ, relative to its
    length, is at most ``tol``.

    Parameters
    ----------
    tol : float
        0: it never has.
    kept : list of arrays
        What :attr:`kept` held after the iteration to go on from.

    Examples
    --------
    A mean that trembles by a tenth around a point has settled, one that drifts by a
    hundredth of its length in every iteration has not:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def first_rest(speed):
    ...     drift = Drift(tol=1e-3)
    ...     path = (np.ones(500) * (1 + speed * t) + 0.1 * rng.normal(size=500)
    ...             for t in range(1, 101))
    ...     return [t for t, mean in enumerate(path, 1) if drift.settled([mean], t)][:1]
    >>> first_rest(0.0), first_rest(0.01)
    ([60], [])
    """

    def __init__(self, tol: float, kept: Sequence[Array] = ()) -> None:
        self._tol = tol
        self.kept = list(kept)
        """The means one and two windows ago, or as many as there are, one list."""

    def settled(self, means: Sequence[Array], iteration: int, allowance: float = 0.0) -> bool:
        """Take note of the means after an iteration; ``allowance`` is added to their length."""
        if self._tol == 0.0 or iteration % WINDOW:
            return False
        n, before = len(means), self.kept
        # Copies: the solver may use the memory of a mean again.
        now = [backend.namespace(m).asarray(m, copy=True) for m in means]
        self.kept = [*now, *before[:n]]
        if len(before) < 2 * n:
            return False
        (near, size), (far, _) = moved(means, before[:n]), moved(means, before[n:])
        drift = math.sqrt(max(far - near, 0.0) / 3) / WINDOW
        return drift <= self._tol * (math.sqrt(size) + allowance)


def moved(new: Sequence[Array], old: Sequence[Array]) -> tuple[float, float]:
    """Return ‖μ_new − μ_old‖² and ‖μ_new‖² over all tasks."""
    distance = size = 0.0
    for a, b in zip(new, old, strict=True):
        if backend.is_numpy(a):
            far, long = kernels.moved(a.ravel(), b.ravel())
            distance, size = distance + far, size + long
            continue
        xp = backend.namespace(a)
        both = xp.stack([xp.sum(backend.abs_squared(a - b)), xp.sum(backend.abs_squared(a))])
        pair = backend.to_numpy(both)  # one transfer
        distance, size = distance + float(pair[0]), size + float(pair[1])
    return distance, size
