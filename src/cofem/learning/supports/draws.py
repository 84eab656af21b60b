"""A posterior known by draws: most entries of a draw are zero, and only the others are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy import sparse

from cofem import backend
from cofem.backend import Array


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of z, and what they say of every coordinate.

    Attributes
    ----------
    mean, variance, probability : array (D,)
        Averages over the chain of the conditional moments, and of being non-zero: more precise
        than those of the draws.
    kept : SciPy sparse array (n, D)
        The draws.
    """

    mean: Array
    variance: Array
    probability: Array
    kept: sparse.csr_array

    @classmethod
    def of(
        cls,
        lengths: np.ndarray,
        chains: list[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]], int]],
    ) -> Draws:
        """Return the draws of chains that ran on columns divided by their ``lengths``."""
        total = np.sum([sums for sums, _, _ in chains], axis=0) / sum(n for _, _, n in chains)
        rows, columns, values, n = [], [], [], 0
        for _, blocks, _ in chains:
            for sizes, places, drawn in blocks:
                used = np.arange(places.shape[1]) < sizes[:, None]
                rows.append(n + np.nonzero(used)[0])
                columns.append(places[used])
                values.append(drawn[used] / lengths[places[used]])
                n += len(sizes)
        pair = np.concatenate(rows), np.concatenate(columns)
        kept = sparse.csr_array(
            sparse.coo_array((np.concatenate(values), pair), shape=(n, len(lengths)))
        )
        mean = total[0] / lengths
        variance = np.maximum(total[1] - total[0] ** 2, 0.0) / lengths**2
        return cls(mean, variance, np.minimum(total[2], 1.0), kept)

    def like(self, example: Array) -> Draws:
        """Return the same with averages of the library, device and precision of ``example``."""
        dtype = backend.to_numpy(example[:1]).dtype
        names = ("mean", "variance", "probability")
        moved = {n: backend.from_numpy(getattr(self, n).astype(dtype), example) for n in names}
        return replace(self, **moved)

    def of_one_task(self) -> Draws:
        """Return itself: draws are of one task."""
        return self

    def quantile(self, p: float) -> Array:
        """Return the p-quantile of every coordinate, by its draws."""
        probability = backend.to_numpy(self.probability)
        found = np.zeros(len(probability), dtype=probability.dtype)
        # Only if so much of the mass is off the atom can the quantile be there.
        where = np.flatnonzero(probability > min(p, 1 - p) / 2)
        if len(where):
            dense = self.kept[:, where].toarray()
            found[where] = np.quantile(dense, p, axis=0, method="median_unbiased")
        return backend.from_numpy(found, self.mean)

    def sample(self, n: int, seed: int) -> Array:
        """Return n of the draws, (n, D); none twice as long as there are enough."""
        random, there = np.random.default_rng(seed), self.kept.shape[0]
        chosen = np.concatenate([random.permutation(there) for _ in range(-(-n // there))])[:n]
        dense = self.kept[chosen].toarray().astype(backend.to_numpy(self.mean[:1]).dtype)
        return backend.from_numpy(dense, self.mean)
