"""The posterior under the learned prior, by Markov chains over which coordinates are non-zero.

Where columns are coherent the posterior has several modes, and neither expectation propagation
nor one precision for each coordinate finds its way between them. A chain that moves effects from
column to column does (:mod:`cofem.learning.supports.chain`), at a cost that is small as long as
the matrix is. Two chains run: one begins with nothing and its evidence counts little at first, the
other begins where expectation propagation ended. Where they agree the answer is the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.learning.supports.chain import PROPOSALS, run_chain
from cofem.learning.supports.draws import Draws
from cofem.learning.supports.nonnegative import run_nonnegative_chain
from cofem.learning.supports.slabs import reach_of, scales_for, spreads_for
from cofem.model.model import Model

# Chains are run if they need at most so many operations: ten to twenty seconds.
LARGEST_COST = 6e9
# Columns whose cosine is above this are nearly alike.
ALIKE = 0.9
# The sweeps of every chain that are discarded, and those that count. Then the chains are compared.
WARMING, COUNTED = 100, 200
# Chains whose means differ too much are continued this many times, each time with twice as many
# sweeps; then the first of their sweeps are discarded too, since they may not have settled yet.
LONGER = 2
# The root mean square difference of the chains' means, in error bars of the posterior. Below the
# first number the chains stop: their own error adds less than its square over eight to the error of
# the mean. Below the second number they agree.
ENOUGH, AGREE = 0.1, 0.25
# A start with more than this times the number of coordinates that the other chain found is not
# used.
MANY_MORE = 2
# Annealing: in the first sweep the evidence is raised to the power HOTTEST. The power rises
# linearly towards COOLED and is cut off at one, so that the last discarded sweeps have the power
# one.
HOTTEST, COOLED = 0.1, 2.0
# The callback is called after so many sweeps of a chain.
BLOCK = 25
# A chain that uses more than this share of its places needs more than can be sampled.
FULL = 0.8


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
    sweeps : int
        Of both chains, those that count.
    stopped : bool
        Whether the callback ended them.
    """

    draws: Draws
    noise_precision: float
    distance: float
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
    (29, 6)
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
    (5165, 336)
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
    tell: Callable[[np.ndarray, int], bool] | None = None,
) -> Sampled | None:
    """Run the chains; None, if so many coordinates are non-zero that it would take too long.

    Parameters
    ----------
    model : Model
        For which :func:`~cofem.learning.supports.fit.can_sample` holds.
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
    found: Sampled | None = None
    # Chains that may take values for equal have more modes. Where they do not agree, those that may
    # not are run too, and the two of them that differ less are the answer.
    for equal in (True, False):
        other = _sampled(model, beta, likely_noise, likely, seed, tell, equal)
        if other and (found is None or other.stopped or other.distance < found.distance):
            found = other
        if found is not None and (found.stopped or found.distance <= AGREE):
            break
    return found


def _sampled(
    model: Model, beta: float, likely_noise: float, likely: np.ndarray, seed: int,
    tell: Callable[[np.ndarray, int], bool] | None, equal: bool,
) -> Sampled | None:  # fmt: skip
    """Run chains that may take values to be of equal magnitude, or that may not."""
    task = model.tasks[0]
    phi, y = (backend.to_numpy(x).astype(np.float64) for x in (task.operator.to_dense(), task.y))
    lengths = np.linalg.norm(phi, axis=0)
    lengths[lengths == 0] = 1.0
    columns = np.ascontiguousarray((phi / lengths).T)
    scales = scales_for(columns @ y, likely_noise)
    nothing = np.empty(0, np.int64)
    # With z ≥ 0, values and noise belong to the state of a chain. A chain that starts with no
    # non-zero coordinates takes all of y as noise: with less noise it would add too many at once.
    all_noise = len(y) / max(float(y @ y), np.finfo(np.float64).tiny)
    from_noise = (np.empty(0), all_noise) if model.nonnegative else ()
    first = _Chain(columns, y, scales, beta, seed, nothing, from_noise, equal)
    cooling = np.minimum(np.linspace(HOTTEST, COOLED, WARMING), 1.0)
    if not first.warm(cooling):
        return None
    second, full = first, True
    if len(likely) <= MANY_MORE * max(first.size, 1):
        from_likely = (np.empty(0), likely_noise) if model.nonnegative else ()
        second = _Chain(columns, y, scales, beta, seed + 1, likely, from_likely, equal)
        full = not second.warm(np.ones(WARMING))
    if full:  # that start is no help
        second = _Chain(columns, y, scales, beta, seed + 1, nothing, from_noise, equal)
        if not second.warm(cooling):
            return None
    chains = [first, second]
    count, distance, stopped = COUNTED, math.inf, False
    longest = most_sweeps(len(columns), max(chain.size for chain in chains))
    for again in range(LONGER + 1):
        stopped = any(chain.go_on(count, tell) for chain in chains)
        chains = [chain for chain in chains if chain.counted]
        if stopped and len(chains) < 2:
            break
        distance = _distance(*chains)
        count *= 2
        if stopped or distance <= ENOUGH or again == LONGER or count > longest:
            break
        if again == 0:
            for chain in chains:
                chain.forget()
    best = _those_that_count(chains) if len(chains) == 2 else chains
    draws = Draws.of(lengths, [c.draws() for c in best])
    noise = float(np.mean([np.mean(np.concatenate(c.noise)) for c in best]))
    return Sampled(draws, 1 / noise, distance, sum(c.counted for c in chains), stopped)


class _Chain:
    """One chain, with what is kept of its sweeps."""

    def __init__(
        self, columns: np.ndarray, y: np.ndarray, scales: np.ndarray, beta: float, seed: int,
        likely: np.ndarray, extra: tuple[Any, ...], equal: bool,
    ) -> None:  # fmt: skip
        self._parts: tuple[Any, ...] = columns, y, scales, 1 / len(scales)
        self._beta, self._random = beta, np.random.default_rng(seed)
        self._most = min(most_nonzeros(len(columns)), len(y) - 1, len(columns))
        places = likely[: self._most // 2].astype(np.int64)
        slabs = np.full(len(places), len(scales) // 2, np.int64)
        self._chain: Callable[..., Any] = run_nonnegative_chain if extra else run_chain
        largest = float(np.max(np.abs(columns @ y)))
        self._parts += spreads_for(scales) if equal else np.empty(0), reach_of(largest)
        self._state: tuple[Any, ...] = places, slabs, np.array([largest, 1.0]), *extra
        self.counted = 0
        self.noise: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []
        self._kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._sums = np.zeros((3, len(columns)))

    @property
    def size(self) -> int:
        """How many coordinates are non-zero now."""
        return len(self._state[0])

    def warm(self, powers: np.ndarray) -> bool:
        """Make sweeps that do not count; return whether the others are worth their time."""
        self._run(powers, counts=False)
        return self.size <= FULL * self._most

    def forget(self) -> None:
        """Let the sweeps so far not count, and stay where they ended."""
        self.counted, self._sums = 0, np.zeros_like(self._sums)
        self.noise, self.scores, self._kept = [], [], []

    def go_on(self, sweeps: int, tell: Callable[[np.ndarray, int], bool] | None) -> bool:
        """Make sweeps that count; return whether ``tell`` asked to stop."""
        for _ in range(0, sweeps, BLOCK):
            self._run(np.ones(BLOCK), counts=True)
            if tell is not None and tell(self.mean, self.counted):
                return True
        return False

    def _run(self, powers: np.ndarray, counts: bool) -> None:
        first = 0 if counts else len(powers) - 1
        found = self._chain(
            *self._parts, *self._state, self._beta, self._most, powers, first, self._random
        )
        sizes, places, values, noise, scores, *sums = found[:8]
        self._state = found[8:]
        if counts:
            self._kept.append((sizes, places, values))
            self.noise.append(noise)
            self.scores.append(scores)
            self._sums += len(sizes) * np.asarray(sums)
            self.counted += len(sizes)

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self._sums[0] / self.counted)

    @property
    def score(self) -> tuple[float, float]:
        """The mean log posterior of the sweeps, and their standard deviation."""
        scores = np.concatenate(self.scores)
        return float(np.mean(scores)), float(np.std(scores))

    def draws(self) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]], int]:
        return self._sums, self._kept, self.counted


def _distance(one: _Chain, other: _Chain) -> float:
    """Return how far the means are apart beside the spread of all coordinates together."""
    (sums, _, n), (more, _, m) = one.draws(), other.draws()
    total = (sums + more) / (n + m)
    variance = float(np.sum(total[1] - total[0] ** 2))
    if variance <= 0:
        return 0.0
    return math.sqrt(float(np.sum((one.mean - other.mean) ** 2)) / variance)


def _those_that_count(chains: list[_Chain]) -> list[_Chain]:
    """Leave out a chain that stayed at a mode far less probable than the other one's.

    Between two modes that no move connects the time spent says nothing about their weights, but
    the posterior density does: a chain whose density is below the other's by more than both
    fluctuate is at a lesser mode.
    """
    (one, spread_one), (other, spread_other) = (chain.score for chain in chains)
    far = 3 * (spread_one + spread_other)
    if abs(one - other) <= far:
        return chains
    return [chains[0] if one > other else chains[1]]
