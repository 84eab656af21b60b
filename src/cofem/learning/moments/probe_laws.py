"""Which random numbers probe, and the seed of every iteration's."""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.solvers.probes import ProbeMaker, rademacher


def _gaussian(number: int, dimension: int, like: Array, seed: int) -> Array:
    return backend.Random(seed).normal((number, dimension), like)


def probe_maker(law: str | ProbeMaker) -> ProbeMaker:
    """Return the maker of the law with that name, or the maker itself."""
    if not isinstance(law, str):
        return law
    return {"rademacher": rademacher, "gaussian": _gaussian}[law]


def iteration_seed(seed: tuple[int, int], iteration: int) -> int:
    """Return one seed per iteration; −1 is the reporting step's."""
    words = np.random.SeedSequence([*seed, iteration + 1]).generate_state(1, np.uint64)
    return int(words[0])
