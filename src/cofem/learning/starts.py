"""From a model to its fit: the learned prior where its end is certified, else one precision each.

Starts. Expectation propagation begins at a signal to noise of 10 dB and learns the noise from
there, which finds nearly every signal that stands well above the noise. Where it explains less,
other ends are possible: a signal weaker than the noise is found from 0 dB, where all of y counts
as noise, and equal magnitudes near the limit of what can be recovered from 20 dB. Also an
end that is crowded may be one of several (:mod:`cofem.learning.certificate`). Then all three are
run, and the evidence decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.certificate import Certificate, certify, is_crowded
from cofem.learning.loop import Keeper, LoopResult, iterate
from cofem.learning.moments.gaussian import EStep
from cofem.learning.noise import (
    LARGEST_SHARE,
    LEAST_RESIDUAL,
    PENALTY,
    LearnedNoise,
    squared_rows,
)
from cofem.learning.recording import Callback
from cofem.learning.sites.ard import Ard
from cofem.learning.sites.propagation import Propagation
from cofem.learning.stopping import Verdict
from cofem.model.model import Model

# The signal-to-noise ratios (as ratios of power) at which the starts begin.
STARTS = (10.0, 0.0, 100.0)
# If the first start ends with a larger ratio than this, no other start is made.
EXPLAINED = 30.0
# The ratios at which the noise is held until the sites are at rest, for at most HOLD_ITERATIONS;
# such starts are made if no end that is certified and not crowded has a larger ratio than FOUND,
# until they took as many products as the starts before them: in pure noise each is expensive.
HELD = (316.0, 100.0, 1000.0)
HOLD_ITERATIONS, FOUND = 60, 3.0
# The share of the new sites in the average of new and old, where a fit has not come to rest with
# the usual ones. (Autoregressive kernels with a pole of .95: .1 still oscillates, .05 rests.)
CALM_DAMPING = 0.05
# Tasks whose noise precisions differ by less than this factor share one.
UNLIKE = 2.0
# The noise precision of an end that is not certified is still believed if the fit uses less than
# this share of the data, and log β moved by less than this in the last iteration.
CREDIBLE_USED, CREDIBLE_MOVE = 0.5, 0.2
# What is more probably non-zero than not is named. A crowded end is sure of itself if it uses much
# of the data, and mostly for what it names (.67 and .8 of an image, .54 and .1 of noise of 30 %).
LIKELY, MUCH_USED, MUCH_NAMED = 0.5, 0.5, 0.5
# Pruning finds the noise well enough with this tol; a smaller one of the user is not needed.
PRUNED_TOL = 1e-4
# The most E-steps for finding the noise by pruning, if the learned prior could not find it.
PRUNED_ITERATIONS = 100

EStepMaker = Callable[[Model], Sequence[EStep]]


@dataclass(frozen=True)
class End:
    """Where one start of the learned prior ended.

    ``crowded``: too sure of one of several ends; ``held``: the noise was held at first;
    ``share``: at which the share of non-zeros was held, or zero.
    """

    rule: Propagation
    found: LoopResult
    certificate: Certificate
    crowded: bool = False
    held: bool = False
    share: float = 0.0

    @property
    def full(self) -> bool:
        """Whether it is crowded, and sure of itself: much of the data is used by what it names."""
        look, shares = self.rule.look, self.rule.shares
        if not self.crowded or shares is None or not look.used > MUCH_USED:
            return False
        named = np.count_nonzero(backend.to_numpy(shares.spike) < 1 - LIKELY)
        return bool(named > MUCH_NAMED * look.used * self.rule.n_data)

    @property
    def credible_noise(self) -> bool:
        """Whether at least its noise precision can be believed."""
        look = self.rule.look
        return bool(look.used < CREDIBLE_USED and abs(look.log_move) < CREDIBLE_MOVE)

    def explains(self, ratio: float = EXPLAINED) -> bool:
        """Whether it can be believed, and its signal to noise ratio is above this one."""
        if self.certificate is not Certificate.GIVEN or self.crowded:
            return False
        noises = self.rule.noises
        return all(noise.ratio * noise.energy / noise.n_data > ratio for noise in noises)


def noise_units(model: Model, given: bool, each: bool = False) -> Model:
    """Return the model at noise precisions for E-steps to be made at: all of y is noise.

    Joint tasks have one in common, or ``each`` one of its own.
    """
    if given:
        return model
    if each:
        alone = (noise_units(replace(model, tasks=(task,)), False) for task in model.tasks)
        return model.with_noise([m.tasks[0].noise_precision for m in alone])
    n = sum(t.operator.shape[0] for t in model.tasks)
    energy = math.fsum(float(squared_rows(t.y)) for t in model.tasks)
    unit = n / energy if energy > 0 else 1.0
    return model.with_noise([unit] * len(model.tasks))


def own_noise(end: End) -> list[float] | None:
    """Return the noise precision of every task by itself, or None where they are alike."""
    model = end.rule.model
    found: list[float] = [1.0] * len(model.tasks)
    for family, m in zip(model.families, end.found.moments, strict=True):
        left = squared_rows(family.y - family.operator.forward(m.mean))
        used = m.freedom / len(family.members)
        for row, member in enumerate(family.members):
            n = model.tasks[member].operator.shape[0]
            unused = max(n - used - PENALTY * math.sqrt(n), (1 - LARGEST_SHARE) * n)
            power = float(squared_rows(family.y[row : row + 1, ...])[0])
            found[member] = math.nan  # a task of nothing but zeros does not say
            if power > 0:
                found[member] = unused / max(float(left[row]), LEAST_RESIDUAL * power)
    said = [math.log(b) for b in found if not math.isnan(b)]
    if not said:
        return None
    others = math.exp(math.fsum(said) / len(said))
    found = [others if math.isnan(b) else b for b in found]
    return found if max(found) > UNLIKE * min(found) else None


def _alike_together(found: list[float]) -> list[float]:
    """Give tasks whose noise precisions are alike one, the geometric mean of theirs.

    Examples
    --------
    >>> [round(b) for b in _alike_together([100.0, 1.0, 144.0])]
    [120, 1, 120]
    """
    shared = list(found)
    order = sorted(range(len(found)), key=found.__getitem__)
    while order:
        alike = [i for i in order if found[i] <= UNLIKE * found[order[0]]]
        mean = math.exp(math.fsum(math.log(found[i]) for i in alike) / len(alike))
        for i in alike:
            shared[i] = mean
        order = order[len(alike) :]
    return shared


def learn_mixture(
    model: Model,
    make: EStepMaker,
    *,
    given: bool,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
    spent: int = 0,
) -> list[End]:
    """Fit the learned prior from its starts; return every end, in that order.

    Parameters
    ----------
    model : Model
        With its noise precision, or at :func:`noise_units`.
    make : function
        Model → E-steps.
    given : bool
        Whether the noise precision is the model's.
    max_iter, tol, callback, keeper
        As for :func:`cofem.fit`.
    spent : int
        The products made before.
    """
    esteps = make(model)
    ends: list[End] = []
    for i, start in enumerate(STARTS):
        rule = Propagation(model, start, given, tol)
        rule.impatient = i > 0
        found = iterate(
            model, esteps, rule, max_iter=max_iter, tol=tol, callback=callback,
            keeper=keeper if i == 0 else None, spent=spent,
        )  # fmt: skip
        spent = int(found.history["products"][-1])
        if found.verdict is not Verdict.HOPELESS:
            ends.append(ended(rule, found, esteps))
            spent = int(found.history["products"][-1])
        stopped = found.verdict is Verdict.STOPPED  # by the user: no other start begins
        if tol == 0 or stopped or ends[0].explains(-math.inf if given else EXPLAINED):
            return ends
    silent = not any(noise.energy > 0 for noise in ends[0].rule.noises)
    if not given and not silent and not any(end.explains(FOUND) for end in ends):
        last = ends[-1].found.history["products"]
        end, spent = _held_end(
            model, make, max_iter=max_iter, tol=tol, callback=callback, spent=spent
        )
        last[-1] = spent
        ends += [] if end is None else [end]
    return ends


def _held_end(
    model: Model, make: EStepMaker, *, max_iter: int, tol: float, callback: Callback | None,
    spent: int,
) -> tuple[End | None, int]:  # fmt: skip
    """Return the first end that explains y, of starts that hold the noise, and the products."""
    before = spent
    for start in HELD:
        if spent > 2 * before:
            break
        held = model.with_noise([(1 + start) * task.noise_precision for task in model.tasks])
        esteps, rule = make(held), Propagation(held, start, True, tol)
        found = iterate(
            held, esteps, rule, max_iter=min(max_iter, HOLD_ITERATIONS), tol=tol,
            callback=callback, spent=spent,
        )  # fmt: skip
        spent = int(found.history["products"][-1])
        if found.verdict is Verdict.STOPPED:
            break
        rule = rule.with_noise_of_each(held)
        rule.impatient = True
        found = iterate(
            held, esteps, rule, max_iter=max_iter, tol=tol, callback=callback, spent=spent
        )
        spent = int(found.history["products"][-1])
        if found.verdict in (Verdict.HOPELESS, Verdict.STOPPED):
            continue
        end = replace(ended(rule, found, esteps), held=True)
        spent = int(found.history["products"][-1])
        if end.explains():
            return end, spent
    return None, spent


def ended(rule: Propagation, found: LoopResult, esteps: Sequence[EStep]) -> End:
    """Return the end with its certificate."""
    certificate, checked = certify(rule, esteps)
    crowded = False
    if certificate is Certificate.GIVEN:
        crowded, more = is_crowded(rule, esteps[0])
        checked += more
    found.history["products"][-1] += checked
    return End(rule, found, certificate, crowded)


def calmed(
    ends: Sequence[End], make: EStepMaker, *, max_iter: int, tol: float,
    callback: Callback | None, spent: int,
) -> End:  # fmt: skip
    """Go on with small steps from the end that is nearest to rest; none of them is certified."""
    distances = [end.rule.look.distance for end in ends]
    nearest = ends[min(range(len(ends)), key=lambda i: (math.isnan(distances[i]), distances[i]))]
    rule, model = nearest.rule, nearest.rule.model
    rule.damping, rule.impatient = CALM_DAMPING, False
    esteps = make(model)
    found = iterate(model, esteps, rule, max_iter=max_iter, tol=tol, callback=callback, spent=spent)
    return replace(ended(rule, found, esteps), held=nearest.held)


def with_own_noise(
    end: End, make: EStepMaker, *, max_iter: int, tol: float, callback: Callback | None, spent: int
) -> End:
    """Go on from an end of joint tasks, each with noise of its own, where they are unlike."""
    own = own_noise(end)
    if own is None:
        return end
    # First each by itself; then those that turned out alike together.
    for proportions in (lambda found: found, _alike_together):
        model = end.rule.model.with_noise(proportions(own))
        esteps, rule = make(model), end.rule.with_noise_of_each(model)
        found = iterate(
            model, esteps, rule, max_iter=max_iter, tol=tol, callback=callback, spent=spent
        )
        end = replace(ended(rule, found, esteps), held=end.held)
        own, spent = end.rule.noise_precisions, int(found.history["products"][-1])
    return end


def pruned_noise(
    model: Model, make: EStepMaker, alpha: Array, tol: float, callback: Callback | None = None
) -> tuple[float, int]:
    """Return the noise precision over the model's by pruning, and the products that took."""
    noise = LearnedNoise(model.families, 0.0)
    tol = max(tol, PRUNED_TOL)
    rule = Ard(model, alpha * noise.ratio, tol, pruning=True, noise=noise)
    found = iterate(
        model, make(model), rule, max_iter=PRUNED_ITERATIONS, tol=tol, callback=callback
    )
    return noise.ratio, int(found.history["products"][-1])
