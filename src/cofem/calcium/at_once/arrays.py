"""The recursions of ``jumps.passes`` for many cells, in the array API standard.

Every frame is a product with every cell's matrix of transitions: simple, right on any device,
and slower than the kernels, which follow the few states that matter.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once.tables import Tables
from cofem.calcium.jumps.passes import FAINT, NEGLIGIBLE, NOTHING


def forward(tables: Tables, y: Array, seen: Array) -> tuple[Array, ...]:
    """Filter; return log evidence (C,), and weights and likelihoods (C, n, K)."""
    xp = backend.namespace(y)
    (matrix,) = _transitions(tables, np.ones((1, tables.number.shape[0])))
    calcium, rise = tables.calcium[None, :], tables.rise[:, None]
    noise = tables.height[:, None] ** -2
    values = (y - tables.level[:, None]) / tables.height[:, None]
    here = tables.begin
    mean, square = calcium + 0 * here, calcium**2 + 0 * here
    evidence, weights, likelihoods = 0 * tables.rise, [], []
    for t in range(y.shape[1]):
        moments = xp.matmul(xp.stack([here, here * mean, here * square], axis=1), matrix)
        mass = moments[:, 0, :]
        there, look = mass > NOTHING, seen[:, t : t + 1]
        share = 1 / xp.where(there, mass, xp.ones_like(mass))
        centre = moments[:, 1, :] * share
        spread = moments[:, 2, :] * share - centre**2
        spread = xp.maximum(spread, 0 * spread) * rise**2
        centre = rise * centre + (1 - rise) * calcium
        error, sharp = values[:, t : t + 1] - centre, 1 / (spread + noise)
        chance = xp.where(look, -0.5 * error**2 * sharp, 0 * error)
        best = xp.max(xp.where(there, chance, 0 * chance - 1e300), axis=1, keepdims=True)
        away = chance - best
        follows = there & (away > NEGLIGIBLE)
        factor = xp.where(look, xp.sqrt(noise * sharp), xp.ones_like(sharp))
        like = xp.where(follows, factor * xp.exp(xp.where(follows, away, 0 * away)), 0 * away)
        mean = xp.where(look, centre + spread * sharp * error, centre)
        square = mean**2 + xp.where(look, spread * noise * sharp, spread)
        here = mass * like
        total = xp.sum(here, axis=1, keepdims=True)
        evidence = evidence + best[:, 0] + xp.log(total[:, 0])
        here = xp.where(here > FAINT * total, here / total, 0 * here)
        weights.append(here)
        likelihoods.append(xp.where(here > 0, like, 0 * like))
    return evidence, xp.stack(weights, axis=1), xp.stack(likelihoods, axis=1)


def backward(tables: Tables, weights: Array, likelihoods: Array) -> Array:
    """Smooth; return (C, 5, n): count, its square, active, calcium, its square."""
    xp = backend.namespace(weights)
    calcium = tables.calcium[None, :]
    count = backend.to_numpy(tables.number)
    matrices = _transitions(tables, np.stack([np.ones_like(count), count, count**2, count == 0]))
    later, out = xp.ones_like(weights[:, 0, :]), []
    nothing = 0 * tables.rise
    for t in range(weights.shape[1] - 1, -1, -1):
        mass = weights[:, t, :] * later
        mass = mass / xp.sum(mass, axis=1, keepdims=True)
        rows = [xp.sum(mass * calcium, axis=1), xp.sum(mass * calcium**2, axis=1)]
        if t == 0:
            out.append(xp.stack([nothing, nothing, nothing, *rows], axis=1))
            break
        ahead = (later * likelihoods[:, t, :])[:, :, None]
        before = weights[:, t - 1, :]
        sums = [xp.matmul(matrix, ahead)[:, :, 0] for matrix in matrices]
        total, number, square, still = (xp.sum(before * part, axis=1) for part in sums)
        out.append(xp.stack([number / total, square / total, 1 - still / total, *rows], axis=1))
        later = xp.where(before > 0, sums[0], 0 * sums[0])
        later = later / xp.max(later, axis=1, keepdims=True)
    return xp.stack(out[::-1], axis=2)


def _transitions(tables: Tables, factors: np.ndarray) -> list[Array]:
    """Return a matrix (C, K, K), from state to state, for every row of factors of the options."""
    xp = backend.namespace(tables.share)
    K = tables.calcium.shape[0]
    state = xp.arange(K, device=backend.device_of(tables.calcium))[None, None, :]
    out: list[Array] = [0.0 for _ in factors]  # type: ignore[misc]
    for j in range(factors.shape[1]):
        target = tables.target[:, j, :, None]
        up = tables.share[:, j, :, None]
        step = xp.where(target == state, 1 - up, 0 * up) + xp.where(target + 1 == state, up, 0 * up)
        step = tables.weight[:, j, None, None] * step
        out = [so_far + float(row[j]) * step for so_far, row in zip(out, factors, strict=True)]
    return out
