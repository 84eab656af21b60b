"""The posterior under the learned prior, by Markov chains over which coordinates are non-zero.

Where columns are coherent the posterior has several modes, and neither expectation propagation
nor one precision for each coordinate finds its way between them. A chain that moves effects from
column to column does (:mod:`cofem.learning.supports.chain`), at a cost that is small as long as
the matrix is. Two chains run: one begins with nothing and its evidence counts little at first, the
other begins where expectation propagation ended. Where they agree the answer is the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.learning.supports.chain import PROPOSALS
from cofem.learning.supports.draws import Draws
from cofem.learning.supports.runs import Run, Tell
from cofem.learning.supports.slabs import scales_for
from cofem.model.model import Model

# Chains are run if they need at most so many operations: ten to twenty seconds.
LARGEST_COST = 1e10
# Columns whose cosine is above this are nearly alike.
ALIKE = 0.9
# The sweeps of every chain that are discarded, and those that count. Then the chains are compared.
WARMING, COUNTED = 100, 200
# Chains whose means differ too much are continued this many times, each time with twice as many
# sweeps, and once more with laws of more noise beside them, with which they find their way. The
# first of their sweeps are discarded then, since they may not have settled yet.
LONGER = 2
# The root mean square difference of the chains' means, in error bars of the posterior. Below the
# first number the chains stop: their own error adds less than its square over eight to the error of
# the mean. Below the second number they agree.
ENOUGH, AGREE = 0.1, 0.25
# A mode whose log posterior density is higher by this is clearly better. If chains do not agree,
# one at a lesser mode does not count.
CLEARLY = math.log(100)
# A start with more than this times the number of coordinates that the other chain found is not
# used.
MANY_MORE = 2
# Columns of which all lengths agree to SAME have one length; columns whose lengths differ by no
# more than the factor SIMILAR may be in one unit. Chains in the user's units must be clearly better
# than those in columns of length one, which do not change with the units.
SAME, SIMILAR = 1e-3, 10.0
# Annealing: in the first sweep the evidence is raised to the power HOTTEST. The power rises
# linearly towards COOLED and is cut off at one, so that the last discarded sweeps have the power
# one.
HOTTEST, COOLED = 0.1, 2.0


@dataclass(frozen=True)
class Sampled:
    """The result of the chains.

    Attributes
    ----------
    draws : Draws
        Of z, with its averages.
    noise_precision : float
        One over the mean of the noise variance.
    distance : float
        Of the two chains' means, in error bars of all coordinates together.
    ahead : float
        By how many nats the mode of the chain that alone counts is more probable; zero, if both do.
    sweeps : int
        Of both chains, those that count.
    stopped : bool
        Whether the callback ended them.
    """

    draws: Draws
    noise_precision: float
    distance: float
    ahead: float
    sweeps: int
    stopped: bool


def sampling_cost(unknowns: int, nonzeros: int) -> float:
    """Return about how many operations the chains take."""
    looks = nonzeros + 2 * PROPOSALS
    return 2.0 * (WARMING + COUNTED) * looks * unknowns * (nonzeros + 3) ** 2


def most_nonzeros(unknowns: int) -> int:
    """Return how many non-zeros can be sampled at that cost.

    Examples
    --------
    >>> most_nonzeros(200), most_nonzeros(5000)
    (36, 8)
    """
    k = 1
    while sampling_cost(unknowns, k + 1) <= LARGEST_COST:
        k += 1
    return k


def most_sweeps(unknowns: int, nonzeros: int) -> int:
    """Return how many sweeps of two chains can be made at once at that cost.

    Examples
    --------
    >>> most_sweeps(200, 8), most_sweeps(5000, 6)
    (8608, 561)
    """
    return int(LARGEST_COST * (WARMING + COUNTED) / sampling_cost(unknowns, nonzeros))


def columns_alike(model: Model, likely: np.ndarray) -> bool:
    """Whether a column that is likely in the support is nearly like any other column."""
    phi = backend.to_numpy(model.tasks[0].operator.to_dense())
    lengths = np.linalg.norm(phi, axis=0)
    columns = phi / np.where(lengths > 0, lengths, 1.0)
    cosines = np.abs(columns[:, likely].T @ columns)
    cosines[np.arange(len(likely)), likely] = 0.0
    return bool(np.any(cosines > ALIKE))


def sample_supports(
    model: Model,
    beta: float,
    likely_noise: float,
    likely: np.ndarray,
    seed: int,
    tell: Tell | None = None,
) -> Sampled | None:
    """Run the chains; None, if so many coordinates are non-zero that it would take too long.

    Parameters
    ----------
    model : Model
        For which :func:`~cofem.model.choosing.can_sample` holds.
    beta : float
        The noise precision; zero if it is to be learned.
    likely_noise : float
        What it may be about.
    likely : integer array
        The coordinates that are non-zero where the second chain begins, unless they are many
        more than those that the first found.
    tell : function, optional
        Is given the mean so far and the number of sweeps; True ends the chains.
    """
    task = model.tasks[0]
    phi, y = (backend.to_numpy(x).astype(np.float64) for x in (task.operator.to_dense(), task.y))
    best: list[Run] = []
    for scale in _units(phi):
        runs = _started(model, phi / scale, y, beta, likely_noise, likely, seed)
        if not runs:
            continue
        stopped = any(run.go_on(COUNTED, _in_units(tell, scale)) for run in runs)
        if not best or _height(runs) - _height(best) > CLEARLY:
            best, lengths = runs, scale
        if stopped:
            break
    if not best:
        return None
    runs, distance, stopped = _compared(best, beta, _in_units(tell, lengths), stopped)
    best, ahead = _those_that_count(runs, distance)
    draws = Draws.of(lengths, [c.draws() for c in best])
    noise = float(np.mean([c.noise_variance for c in best]))
    return Sampled(draws, 1 / noise, distance, ahead, sum(c.counted for c in runs), stopped)


def _units(phi: np.ndarray) -> list[np.ndarray]:
    """Return the lengths of the columns, and what they are in units of a typical one if alike.

    Values of equal magnitude may be equal in columns of length one or as the user has them. The
    second is only asked where columns are of similar lengths, as those of one quantity are.
    """
    lengths = np.linalg.norm(phi, axis=0)
    typical = float(np.sqrt(np.mean(lengths**2))) or 1.0
    lengths[lengths == 0] = typical
    uneven = np.std(lengths) > SAME * typical
    if not uneven or np.max(lengths) > SIMILAR * np.min(lengths):
        return [lengths]
    return [lengths, np.full_like(lengths, typical)]


def _in_units(tell: Tell | None, lengths: np.ndarray) -> Tell | None:
    """Let ``tell`` be given means of the columns as they are, not divided by ``lengths``."""
    return None if tell is None else lambda mean, sweeps: tell(mean / lengths, sweeps)


def _started(
    model: Model, columns: np.ndarray, y: np.ndarray, beta: float, likely_noise: float,
    likely: np.ndarray, seed: int,
) -> list[Run]:  # fmt: skip
    """Return two chains after their warm-up; none, if they need more non-zeros than allowed."""
    columns = np.ascontiguousarray(columns.T)
    scales = scales_for(columns @ y, likely_noise)
    nothing = np.empty(0, np.int64)
    # With z ≥ 0, values and noise belong to the state of a chain. A chain that starts with no
    # non-zero coordinates takes all of y as noise: with less noise it would add too many at once.
    all_noise = len(y) / max(float(y @ y), np.finfo(np.float64).tiny)
    cooling = np.minimum(np.linspace(HOTTEST, COOLED, WARMING), 1.0)

    def run(seed: int, likely: np.ndarray, noise: float) -> Run:
        values = (np.empty(0), noise) if model.nonnegative else ()
        most = min(most_nonzeros(len(columns)), len(y) - 1, len(columns))
        return Run(
            columns, y, scales, beta=beta, most=most, seed=seed, likely=likely, values=values
        )

    def warm(run: Run, powers: np.ndarray) -> bool:
        return run.warm(powers) or run.warm(np.ones(WARMING))

    first = run(seed, nothing, all_noise)
    if not warm(first, cooling):
        return []
    second, full = first, True
    if len(likely) <= MANY_MORE * max(first.size, 1):
        second = run(seed + 1, likely, likely_noise)
        full = not warm(second, np.ones(WARMING))
    if full:  # that start is no help
        second = run(seed + 1, nothing, all_noise)
        if not warm(second, cooling):
            return []
    return [first, second]


def _height(runs: list[Run]) -> float:
    """Return the log posterior density of the better mode."""
    return max(run.height for run in runs if run.counted)


def _compared(
    runs: list[Run], beta: float, tell: Tell | None, stopped: bool
) -> tuple[list[Run], float, bool]:
    """Make more sweeps until the means agree; return what ran, the distance, and if stopped.

    Chains that do not agree go on with others beside them that have more noise; those that would
    take too long with these, with more sweeps.
    """
    count, distance = COUNTED, math.inf
    for again in range(LONGER + 2):
        if again:
            stopped = any(run.go_on(count, tell) for run in runs)
        runs = [run for run in runs if run.counted]
        if len(runs) == 2:
            distance = _distance(*runs)
        enough = ENOUGH if again == 0 else AGREE
        if stopped or distance <= enough or again == LONGER + (runs[0].laws > 1):
            break
        size = min(run.size for run in runs)
        longest = most_sweeps(len(runs[0].mean), size)
        if again == 0:
            noise = beta or 1 / min(run.noise_variance for run in runs)
            for run in runs:
                run.temper(noise, size, longest // (WARMING + COUNTED))
        tempered = runs[0].laws > 1
        count *= 1 if again == 0 and tempered else 2
        if count * runs[0].laws > longest:
            break  # what was counted so far is the answer
        if again == 0:
            for run in runs:
                run.forget()
                if tempered:
                    run.warm(np.ones(WARMING))
    return runs, distance, stopped


def _distance(one: Run, other: Run) -> float:
    """Return how far the means are apart beside the spread of all coordinates together."""
    (sums, _, n), (more, _, m) = one.draws(), other.draws()
    total = (sums + more) / (n + m)
    variance = float(np.sum(total[1] - total[0] ** 2))
    if variance <= 0:
        return 0.0
    return math.sqrt(float(np.sum((one.mean - other.mean) ** 2)) / variance)


def _those_that_count(chains: list[Run], distance: float) -> tuple[list[Run], float]:
    """Leave out a chain that stayed at a lesser mode; return those that count, and by how much.

    Between two modes that no move connects the time spent says nothing about their weights, but
    the posterior density does.
    """
    if len(chains) < 2 or distance <= AGREE:
        return chains, 0.0
    lesser, better = sorted(chains, key=lambda chain: chain.height)
    ahead = better.height - lesser.height
    return ([better], ahead) if ahead > CLEARLY else (chains, 0.0)
