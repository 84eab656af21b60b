"""When a fit is done: one place for tolerances, stalls, the callback and ``max_iter``.

A coordinate has settled when an iteration moves it by a small share of its own error bar,
however large another coordinate is. The error bar is the one it would have if the others were
known, 1/√A_jj: where columns are coherent that is far below the true one, and rightly so, since
there EM exchanges one column for another in many small steps. EM never ends by itself where the
data are noisy: it follows the noise, and its error grows. The share below which movement no
longer counts was chosen where the error, on the way, is smallest (``docs/stopping.md``).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import final

from cofem import backend
from cofem.backend import Array
from cofem.solvers import kernels

# tol = 1e-4 stops when no coordinate moves by more than 0.075 of its error bar.
SHARE_PER_TOL = 750.0
# Random probes shake some of many coordinates for ever: one in so many is not waited for.
SHAKEN = 1000


class Verdict(enum.Enum):
    """How the iterations ended; the value is the sentence for the user."""

    SETTLED = "no coordinate moves by more than {share:.2g} of its error bar in an iteration"
    AT_REST = "prior, noise and all coordinates are at rest"
    NEARLY_AT_REST = (
        "prior, noise and all but {few:.2g} of the coordinates are at rest; the others swing "
        "by more than a tenth of their error bars"
    )
    CERTIFIED = (
        "the end of the learned prior is certified; a few coordinates still swing by a small "
        "share of their error bars"
    )
    SAMPLED = (
        "two chains over which coordinates are non-zero agree within {distance:.2g} error bars "
        "after {sweeps} sweeps"
    )
    CHAINS_APART = (
        "two chains over which coordinates are non-zero still differ by {distance:.2g} error bars "
        "after {sweeps} sweeps: the columns of phi are too alike for more than a rough answer"
    )
    MEAN_SETTLED = "the mean changes by less than tol={tol:g} per iteration"
    NO_MOVE_LEFT = "no move raises the log evidence by min_gain={min_gain:g}"
    STOPPED = "stopped by the callback"
    AS_ASKED = "ran the {max_iter} iterations asked for (tol=0)"
    GIVEN = "hyperparameters given, nothing learned"
    NOT_SETTLED = (
        "{moving} of {n} coordinates still move by more than {share:.2g} of their error bars "
        "after max_iter={max_iter}: raise max_iter, or accept it with a larger tol"
    )
    HOPELESS = "this start used up the data"
    MEAN_NOT_SETTLED = (
        "the mean still changes by {change:.2g} per iteration after max_iter={max_iter} "
        "(tol={tol:g}): raise max_iter, or accept it with a larger tol"
    )
    NOT_AT_REST = (
        "the learned prior was not at rest after max_iter={max_iter} (noise moving by {move:.2g}, "
        "means apart by {distance:.2g} error bars): raise max_iter, or use prior=\"ard\""
    )

    @property
    def converged(self) -> bool:
        """Whether this is the end that was asked for."""
        return self in (
            Verdict.SETTLED, Verdict.AT_REST, Verdict.NEARLY_AT_REST, Verdict.CERTIFIED,
            Verdict.SAMPLED, Verdict.MEAN_SETTLED, Verdict.NO_MOVE_LEFT, Verdict.GIVEN,
        )  # fmt: skip


@final
class Movement:
    """How many coordinates an iteration moved by more than a share of their error bars.

    Parameters
    ----------
    tol : float
        As for :func:`cofem.fit`; 0: nothing counts as settled.

    Examples
    --------
    A coefficient of a thousand does not hide that another one still moves:

    >>> import numpy as np
    >>> movement = Movement(1e-4)
    >>> before, now = np.array([[1000.0, 0.0]]), np.array([[1000.0, 0.2]])
    >>> movement.count([now], [before], [np.ones(2)])
    1
    """

    def __init__(self, tol: float) -> None:
        self.share = SHARE_PER_TOL * tol
        self.moving = self.n = 0

    def count(
        self, means: Sequence[Array], before: Sequence[Array], precisions: Sequence[Array]
    ) -> int:
        """Return how many coordinates moved since ``before``, the means of the last iteration.

        ``precisions`` (M,) are A_jj, one array for every family.
        """
        self.moving = self.n = 0
        for new, old, precision in zip(means, before, precisions, strict=True):
            limit = self.share**2
            if backend.is_numpy(new) and not backend.is_complex(new):
                self.moving += int(kernels.moving(new, old, precision, limit))
            else:
                xp = backend.namespace(new)
                far = backend.abs_squared(new - old) * precision > limit
                self.moving += int(xp.sum(xp.astype(far, xp.int64)))
            self.n += int(new.shape[0] * new.shape[1])
        return self.moving

    def settled(self, random: bool) -> bool:
        """Whether the last iteration moved none, or with random probes hardly any."""
        return self.share > 0 and self.moving <= (self.n // SHAKEN if random else 0)
