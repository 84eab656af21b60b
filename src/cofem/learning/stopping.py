"""When a fit is done: one place for tolerances, stalls, the callback and ``max_iter``.

A coordinate has settled when an iteration moves it by a small share of its own error bar,
however large another coordinate is. The error bar is 1/√A_jj, the standard deviation if all other
coordinates were known. Where columns are coherent it is far below the true one. This is intended:
there EM replaces one column by another in many small steps, and must not be stopped in between.
With noisy data EM never ends by itself: it begins to fit the noise, and its error grows again. It
does so with coordinates near zero, so that those count less. Where columns are coherent it also
creeps along directions that the data hardly see, with a prior that is nearly at rest. The share
below which a movement no longer counts was chosen where the error along the iterations is smallest
(``docs/notes/stopping.md``).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import final

from cofem import backend
from cofem.backend import Array
from cofem.solvers import kernels

# tol = 1e-4 stops when no coordinate moves by more than 0.05 of its error bar (measured in
# ``docs/notes/stopping.md``),
SHARE_PER_TOL = 500.0
# of those that stand above zero by CLEAR error bars. The others may move FAINT times as far: with
# most of them EM only follows the noise.
CLEAR, FAINT = 3.0, 4.0
# Where an iteration changes the prior by less nats than that share (the divergence of the new prior
# from the old one, all coordinates together), all coordinates may move CREEPING times as far.
CREEPING = 4.0
# Random probes keep moving a few of many coordinates: one in this many is ignored.
SHAKEN = 1000


class Verdict(enum.Enum):
    """How the iterations ended; the value is the sentence for the user."""

    SETTLED = (
        "no coordinate that stands out moves by more than {share:.2g} of its error bar in an "
        "iteration"
    )
    PRIOR_SETTLED = (
        "an iteration changes the prior by less than {share:.2g} nats; what still moves does so by "
        "a small share of its error bar"
    )
    AT_REST = "prior, noise and all coordinates are at rest"
    NEARLY_AT_REST = (
        "prior, noise and all but {few:.2g} of the coordinates are at rest; the others still "
        "oscillate by more than a tenth of their error bars"
    )
    CERTIFIED = (
        "the end of the learned prior is certified; a few coordinates still oscillate by a small "
        "share of their error bars"
    )
    BETTER_NAMED = (
        "the learned prior was not certified, but the coefficients that it names explain the data "
        'better than those of prior="ard" do, by {ahead:.3g} in log evidence'
    )
    DENSE = (
        "one normal prior for all coordinates explains the data as well as a sparse one or better"
    )
    SAMPLED = (
        "two Markov chains over the sets of non-zero coordinates agree within {distance:.2g} error "
        "bars after {sweeps} sweeps"
    )
    BETTER_MODE = (
        "of two Markov chains over the sets of non-zero coordinates one found sets that are more "
        "probable than those of the other by {ahead:.3g} in log density; it alone counts"
    )
    CHAINS_APART = (
        "two Markov chains over the sets of non-zero coordinates still differ by {distance:.2g} "
        "error bars after {sweeps} sweeps: the columns of phi are so alike that the result is only "
        "approximate"
    )
    MEAN_SETTLED = "the mean changes by less than tol={tol:g} per iteration"
    ONLY_JITTERS = (
        "the mean does not drift any more; it moves by {change:.2g} per iteration, with the draws"
    )
    NO_MOVE_LEFT = "no move raises the log evidence by min_gain={min_gain:g}"
    STOPPED = "stopped by the callback"
    AS_ASKED = "ran the {max_iter} iterations asked for (tol=0)"
    GIVEN = "hyperparameters given, nothing learned"
    CUT_NOT_AT_REST = (
        "hyperparameters given; the posterior of z ≥ 0 is approximate: after {max_iter} iterations "
        "its two means are {distance:.2g} error bars apart"
    )
    NOT_SETTLED = (
        "{moving} of {n} coordinates still move by more than {share:.2g} of their error bars "
        "after max_iter={max_iter}: raise max_iter, or accept it with a larger tol"
    )
    HOPELESS = "from this start the fit used nearly all data as free parameters"
    DIVERGED = (
        "approximate message passing diverged in iteration {iteration}: it needs a phi like a "
        "matrix of independent entries with mean zero (columns that are correlated, as those of a "
        'convolution, make it diverge); {left}. Use method "cofem" or more damping than {damping:g}'
    )
    MEAN_NOT_SETTLED = (
        "the mean still changes by {change:.2g} per iteration after max_iter={max_iter} "
        "(tol={tol:g}): raise max_iter, or accept it with a larger tol"
    )
    NOT_AT_REST = (
        "the learned prior had not settled after max_iter={max_iter} (noise moving by {move:.2g}, "
        'its two means {distance:.2g} error bars apart): raise max_iter, or use prior="ard"'
    )

    @property
    def converged(self) -> bool:
        """Whether this is a good end of a fit."""
        return self in (
            Verdict.SETTLED, Verdict.PRIOR_SETTLED, Verdict.AT_REST, Verdict.NEARLY_AT_REST,
            Verdict.CERTIFIED, Verdict.BETTER_NAMED, Verdict.DENSE, Verdict.SAMPLED,
            Verdict.BETTER_MODE, Verdict.MEAN_SETTLED,
            Verdict.ONLY_JITTERS, Verdict.NO_MOVE_LEFT, Verdict.GIVEN,
        )  # fmt: skip


@final
class Movement:
    """How many coordinates an iteration moved by more than a share of their error bars.

    Those that do not stand above zero by ``CLEAR`` error bars may move ``FAINT`` times as far.

    Parameters
    ----------
    tol : float
        As for :func:`cofem.fit`; 0: nothing counts as settled.

    Examples
    --------
    A coefficient of a thousand does not hide that another one still moves:

    >>> import numpy as np
    >>> movement = Movement(1e-4)
    >>> before, now = np.array([[1000.0, 4.0]]), np.array([[1000.0, 4.2]])
    >>> movement.count([now], [before], [np.ones(2)])
    1
    """

    def __init__(self, tol: float) -> None:
        self.share = SHARE_PER_TOL * tol
        self.moving = self.far = self.n = 0

    def count(
        self,
        means: Sequence[Array],
        before: Sequence[Array],
        precisions: Sequence[Array],
        prior_change: float = math.inf,
    ) -> int:
        """Return how many coordinates moved since ``before``, the means of the last iteration.

        ``precisions`` (M,) are A_jj, one array for every family; ``prior_change`` is by how many
        nats the prior changed since then.
        """
        self.n = sum(int(new.shape[0] * new.shape[1]) for new in means)
        self.moving = self.far = _moving(means, before, precisions, self.share)
        if self.moving and prior_change < self.share:
            self.far = _moving(means, before, precisions, CREEPING * self.share)
        return self.moving

    def settled(self, random: bool) -> Verdict | None:
        """Return the verdict if no coordinate moved, or with random probes only a few."""
        few = self.n // SHAKEN if random else 0
        if self.share == 0 or self.far > few:
            return None
        return Verdict.SETTLED if self.moving <= few else Verdict.PRIOR_SETTLED


def _moving(
    means: Sequence[Array], before: Sequence[Array], precisions: Sequence[Array], share: float
) -> int:
    count, limit = 0, share**2
    for new, old, precision in zip(means, before, precisions, strict=True):
        if backend.is_numpy(new) and not backend.is_complex(new):
            of_numpy = backend.to_numpy(old), backend.to_numpy(precision)
            count += int(kernels.moving(new, *of_numpy, limit, CLEAR**2, FAINT**2))
        else:
            xp = backend.namespace(new)
            move = backend.abs_squared(new - old) * precision
            clear = backend.abs_squared(new) * precision > CLEAR**2
            far = (move > limit) & (clear | (move > FAINT**2 * limit))
            count += int(xp.sum(xp.astype(far, xp.int64)))
    return count
