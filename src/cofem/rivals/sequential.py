"""Fast marginal likelihood maximisation: one coordinate at a time.

Tipping & Faul (2003); Ji, Xue & Carin (2008); for joint tasks Ji, Dunson & Carin (2009).
All prior variances γ_j = 1/α_j start at zero. Each
move takes the coordinate whose γ can raise the evidence most, be it by adding,
re-estimating or deleting it; so the evidence never falls. What there is to gain is in
:mod:`cofem.rivals.evidence_gain`, what a move changes in
:mod:`cofem.rivals.sequential_state`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import LoopResult, Outcome
from cofem.learning.moments.gaussian import Report
from cofem.learning.recording import Callback, Recorder
from cofem.learning.stopping import Verdict
from cofem.model.choosing import refuse_unfit
from cofem.model.model import Model
from cofem.model.rival_methods import Sequential
from cofem.rivals.active_set import ActiveSet
from cofem.rivals.evidence_gain import EvidenceGain
from cofem.rivals.sequential_record import level_rounding
from cofem.rivals.sequential_state import Direction, FamilyState

# The prior variance that is reported for an inactive coordinate, relative to 1/(β‖φ‖²), the
# variance that the data alone would give it: finite, and too small to change any result.
INACTIVE = 1e-12
# Moves in an iteration, where the user does not say: so many iterations add every coordinate once.
ITERATIONS, FEWEST_PER_ITERATION = 32, 8
# Rounding accumulates in Σ. A factorisation after as many moves as there are active coordinates
# costs no more than the moves did; of few coordinates, after this many.
FEWEST_MOVES = 50
# The running sums S are computed again if one of them is found to be wrong by this much (relative).
DRIFT = 1e-6


def run(
    model: Model,
    options: Sequential,
    alpha: Array,
    *,
    seed: int,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Outcome:
    """Change one coordinate at a time until no change raises the evidence enough.

    Parameters
    ----------
    model : Model
        One task or several.
    options : Sequential
    alpha : array (D,)
        Gives the dtype of the result; nothing is active at the start.
    seed : int
        Not used: nothing is random.
    max_iter, tol, callback
        As for :func:`cofem.fit`; an iteration is a batch of moves.
    """
    refuse_unfit(options, model)
    share = model.n_unknowns // ITERATIONS
    moves = options.moves_per_iteration or max(FEWEST_PER_ITERATION, share)
    learner = Learner(model, options.min_gain * len(model.tasks))
    recorder = Recorder(max_iter, tol, callback)
    verdict = None
    while verdict is None:
        made = learner.sweep(moves)
        recorder.add(
            learner.means(),
            learner.precision(alpha),
            products=learner.products,
            log_evidence=learner.log_evidence,
        )
        own = Verdict.NO_MOVE_LEFT if made < moves else recorder.mean_settled
        verdict = recorder.verdict(own, Verdict.MEAN_NOT_SETTLED)
    learner.refresh()
    level_rounding(recorder.history["log_evidence"], learner.log_evidence)
    recorder.history["products"][-1] = learner.products
    found = LoopResult(
        learner.precision(alpha),
        learner.means(),
        verdict,
        {**recorder.facts, "min_gain": options.min_gain},
        recorder.history,
    )
    return Outcome(found, learner.reports(alpha))


class Learner:
    """The active set, and the choice of moves.

    Parameters
    ----------
    model : Model
    min_gain : float
        The smallest gain in log evidence that is worth a move.
    """

    def __init__(self, model: Model, min_gain: float) -> None:
        like = model.like
        self.model, self.min_gain = model, min_gain
        self.active = ActiveSet(model.n_unknowns, like)
        self.states = [FamilyState(f, like, self.active) for f in model.families]
        self.gain = EvidenceGain(
            [state.tasks for state in self.states], 1.0 if backend.is_complex(like) else 0.5
        )
        self._since_refresh = 0
        self.evidences = [0.0] * len(self.states)
        self.log_evidence = math.nan
        self.refresh()

    @property
    def products(self) -> int:
        """Rows multiplied by Φ or Φᴴ so far."""
        return sum(state.products for state in self.states)

    # -- moves ---------------------------------------------------------------------

    def sweep(self, moves: int) -> int:
        """Make up to ``moves`` moves; return how many raised the evidence enough."""
        for made in range(moves):
            if not self._move():
                return made
            if self._since_refresh > max(FEWEST_MOVES, len(self.active)):
                self.refresh()
        return moves

    def _move(self) -> bool:
        """Make the best move; return False if it does not raise the evidence enough."""
        i, gain = self._best()
        if gain < self.min_gain:
            return False
        alpha = self.active.alpha_of(i)
        directions = [state.direction(i, alpha) for state in self.states]
        old, (new, gain) = 1 / alpha, self._reconsider(directions, 1 / alpha)
        if gain < 0.5 * self.min_gain:
            # The running sums promised a gain that is not there, by rounding: compute them again.
            # If they were new already, the gain is rounding too.
            return self._since_refresh > 0 and self._repair()
        drifted = old == 0.0 and self._drifted(i, directions)
        for state, direction in zip(self.states, directions, strict=True):
            state.apply(i, direction, old, new)
        if new == 0.0:
            self.active.remove(i)
        else:
            self.active.set(i, 1 / new)
        self.log_evidence += gain
        self._since_refresh += 1
        if drifted:
            self._repair()
        return True

    def _best(self) -> tuple[int, float]:
        """Return the coordinate with the largest gain, and that gain."""
        inactive, i = self._best_addition()
        if not len(self.active):
            return i, inactive
        alpha = self.active.alphas()
        xp = backend.namespace(alpha)
        s, power = zip(*(state.left_out(alpha) for state in self.states), strict=True)
        now = self.gain(1 / alpha, s, power)
        best = self.gain(self.gain.maximum(s, power), s, power)
        gains = xp.clip(best, min=0.0) - now
        slot = int(xp.argmax(gains))
        if float(gains[slot]) > inactive:
            return int(self.active.members[slot]), float(gains[slot])
        return i, inactive

    def _best_addition(self) -> tuple[float, int]:
        """Return the largest gain of a coordinate that is not active, and which it is."""
        s, power = [], []
        for state in self.states:
            xp = backend.namespace(state.sparsity)
            # Below the floor the running sum is only rounding.
            sound = state.sparsity > state.floor
            s.append(xp.where(sound, state.sparsity, xp.ones_like(state.sparsity)))
            squares = xp.sum(backend.abs_squared(state.quality), axis=0)
            power.append(xp.where(sound & self.active.free, squares, xp.zeros_like(squares)))
        return self.gain.best_addition(s, power)

    def _reconsider(self, directions: Sequence[Direction], old: float) -> tuple[float, float]:
        """Return the best γ of one coordinate and its gain, from quantities computed now."""
        xp = backend.namespace(self.states[0].sparsity)
        device = backend.device_of(self.states[0].sparsity)
        s = [xp.asarray([d.s], dtype=xp.float64, device=device) for d in directions]
        power = [xp.sum(backend.abs_squared(d.q))[None] for d in directions]
        return self.gain.best_change(old, s, power)

    # -- accuracy ------------------------------------------------------------------

    def refresh(self) -> None:
        """Compute Σ, μ, Q and the evidence again, which removes the accumulated rounding."""
        alpha = self.active.alphas()
        self.evidences = [state.refresh(alpha) for state in self.states]
        self.log_evidence = math.fsum(self.evidences)
        self._since_refresh = 0

    def _repair(self) -> bool:
        self.refresh()
        for state in self.states:
            state.refresh_sparsity()
        return True

    def _drifted(self, i: int, directions: Sequence[Direction]) -> bool:
        """Whether rounding has made the running sum S_i of an inactive coordinate wrong."""
        return any(
            abs(float(state.sparsity[i]) - direction.s) > DRIFT * direction.s
            for state, direction in zip(self.states, directions, strict=True)
        )

    # -- results -------------------------------------------------------------------

    def means(self) -> list[Array]:
        """Return μ of every task, (D,), in the dtype of z."""
        xp = backend.namespace(self.model.like)
        rows = [self.active.put(state.means) for state in self.states]
        rows = [xp.astype(r, self.model.like.dtype, copy=False) for r in rows]
        return self.model.in_task_order(rows)

    def precision(self, like: Array) -> Array:
        """Return α, (D,); finite for inactive coordinates too."""
        return self._everywhere(self.active.alphas(), self._ceiling(), like)

    def reports(self, like: Array) -> list[Report]:
        """Return the exact variances and evidence of every family."""
        xp = backend.namespace(like)
        small = 1 / self._ceiling()
        reports = []
        for state, evidence in zip(self.states, self.evidences, strict=True):
            variance = self._everywhere(state.variance, small, like)
            reports.append(Report(variance, xp.zeros_like(variance), evidence, 0.0))
        return reports

    def _everywhere(self, values: Array, elsewhere: float, like: Array) -> Array:
        """Return (D,) with ``values`` at the active coordinates, in the dtype of ``like``."""
        xp = backend.namespace(like)
        here = self.active.put(xp.ones_like(values)) > 0
        other = xp.full_like(like, elsewhere, dtype=values.dtype)
        full = xp.where(here, self.active.put(values), other)
        return xp.astype(full, like.dtype, copy=False)

    def _ceiling(self) -> float:
        sharpest = max(s.beta * float(backend.namespace(s.norms).max(s.norms)) for s in self.states)
        return (sharpest or 1.0) / INACTIVE
