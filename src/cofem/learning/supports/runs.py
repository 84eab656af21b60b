"""One chain, with what is kept of its sweeps; beside it, if asked for, others with more noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cofem.learning.supports.chain import run_chain
from cofem.learning.supports.nonnegative import run_nonnegative_chain
from cofem.learning.supports.slabs import reach_of, spreads_for
from cofem.learning.supports.tempering import Law, exchange, shares_for

# A chain that uses more than this share of its places needs more than can be sampled.
FULL = 0.8
# The callback is called after so many sweeps of a chain.
BLOCK = 25
# With more noise a chain has at most so many times as many non-zeros as the first one, and some:
# where small slabs cannot be seen any coordinate may be in one.
ROOM, SOME = 1.5, 4
# The height of a mode is this quantile of the log posterior densities of the sweeps.
HIGH = 0.9

Tell = Callable[[np.ndarray, int], bool]
Block = tuple[np.ndarray, np.ndarray, np.ndarray]


class Run:
    """One chain, with what is kept of its sweeps.

    Parameters
    ----------
    columns, y, scales
        As for :func:`~cofem.learning.supports.chain.run_chain`.
    beta : float
        The noise precision; zero if it is not known.
    most : int
        The most coordinates that are non-zero at a time.
    seed : int
    likely : integer array
        The coordinates that are non-zero in the beginning.
    values : tuple
        For z ≥ 0: their values, and the noise precision in the beginning.
    """

    def __init__(
        self, columns: np.ndarray, y: np.ndarray, scales: np.ndarray, *, beta: float, most: int,
        seed: int, likely: np.ndarray, values: tuple[Any, ...] = (),
    ) -> None:  # fmt: skip
        self._random = np.random.default_rng(seed)
        places = likely[: most // 2].astype(np.int64)
        slabs = np.full(len(places), len(scales) // 2, np.int64)
        self._nonnegative, largest = bool(values), float(np.max(np.abs(columns @ y)))
        self._chain: Callable[..., Any] = run_nonnegative_chain if values else run_chain
        self._reach = reach_of(largest)
        self._laws = [Law(columns, y, scales, spreads_for(scales), 1.0, beta, most)]
        self._states: list[Any] = [(places, slabs, np.array([largest, 1.0]), *values)]
        self.forget()

    @property
    def size(self) -> int:
        """How many coordinates are non-zero now."""
        return len(self._states[0][0])

    @property
    def laws(self) -> int:
        """How many chains there are, with those that have more noise."""
        return len(self._laws)

    def warm(self, powers: np.ndarray) -> bool:
        """Make sweeps that do not count; return whether the others are worth their time."""
        self._sweep(powers, counts=False)
        return self.size <= FULL * self._laws[0].most

    def forget(self) -> None:
        """Let the sweeps so far not count, and stay where they ended."""
        self.counted, self._sums = 0, np.zeros((3, len(self._laws[0].columns)))
        self.noise: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []
        self._kept: list[Block] = []

    def temper(self, beta: float, size: int, most_laws: int) -> None:
        """Put chains with more noise beside this one, which begin where it is, if not too many.

        With z ≥ 0 there are none.

        Parameters
        ----------
        beta : float
            What the noise precision is about.
        size : int
            How many non-zeros there are about.
        most_laws : int
            The most chains in all.
        """
        first, shares = self._laws[0], shares_for(beta, self._laws[0].y)
        if self._nonnegative or len(shares) >= most_laws:
            return
        most = min(int(ROOM * size) + SOME, first.most)
        places, slabs, (magnitude, spread) = self._states[0]
        for share in shares:
            self._laws.append(replace(first, share=share, beta=share * beta, most=most))
            equal = np.array([magnitude, share * spread])
            self._states.append((places[:most], slabs[:most], equal))

    def go_on(self, sweeps: int, tell: Tell | None) -> bool:
        """Make sweeps that count; return whether ``tell`` asked to stop."""
        for _ in range(0, sweeps, BLOCK):
            self._sweep(np.ones(BLOCK), counts=True)
            if tell is not None and tell(self.mean, self.counted):
                return True
        return False

    def _sweep(self, powers: np.ndarray, counts: bool) -> None:
        if len(self._laws) == 1:
            self._run(0, powers, counts)
            return
        for power in powers:
            for i in range(len(self._laws)):
                self._run(i, np.array([power]), counts and i == 0)
            exchange(self._laws, self._states, self._random)

    def _run(self, i: int, powers: np.ndarray, counts: bool) -> None:
        law = self._laws[i]
        found: Any = self._chain(
            law.columns, law.y, law.scales * law.share, 1 / len(law.scales),
            law.spreads * law.share, self._reach, *self._states[i], law.beta, law.most, powers,
            0 if counts else len(powers) - 1, self._random,
        )  # fmt: skip
        sizes, places, values, noise, scores, *sums = found[:8]
        self._states[i] = found[8:]
        if counts:
            self._kept.append((sizes, places, values))
            self.noise.append(noise)
            self.scores.append(scores)
            self._sums += len(sizes) * np.asarray(sums)
            self.counted += len(sizes)

    @property
    def noise_variance(self) -> float:
        """The mean of the noise variance over the sweeps."""
        return float(np.mean(np.concatenate(self.noise)))

    @property
    def mean(self) -> np.ndarray:
        """The mean of the sweeps."""
        return np.asarray(self._sums[0] / self.counted)

    @property
    def height(self) -> float:
        """The log posterior density of the mode at which the chain is.

        It is nearly the same for all sweeps in which no small coefficients are non-zero besides.
        """
        return float(np.quantile(np.concatenate(self.scores), HIGH))

    def draws(self) -> tuple[np.ndarray, list[Block], int]:
        """Return the sums of first and second moments and of being non-zero, draws, and sweeps."""
        return self._sums, self._kept, self.counted
