"""Evidence and posterior of many traces of one length, each under its own constants."""

from __future__ import annotations

from typing import NamedTuple

from cofem import backend
from cofem.backend import Array
from cofem.calcium.at_once import arrays, kernels
from cofem.calcium.at_once.tables import Tables, first_sources
from cofem.calcium.jumps.passes import FAINT, NEGLIGIBLE, NOTHING


class ManyJumps(NamedTuple):
    """What ``jumps.passes.Jumps`` holds of one trace: arrays (C,) and (C, n)."""

    log_evidence: Array
    number: Array
    spread: Array
    active: Array
    calcium: Array
    calcium_spread: Array


def log_evidence(tables: Tables, y: Array, seen: Array) -> Array:
    """Return log p(y) of every trace (C, n) in units of its noise, up to a constant of the trace.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.calcium.at_once.tables import build_tables
    >>> from cofem.calcium.jumps.states import Constants
    >>> y = np.zeros((2, 100))
    >>> y[:, 50:] = 8 * np.exp(-np.arange(50) / 21.0)
    >>> constants = [Constants(tau, 0.0, 0, 1.0, 0.5, 0) for tau in (0.1, 0.7)]
    >>> fast, right = log_evidence(build_tables(constants, 30.0, y), y, np.ones(y.shape, bool))
    >>> bool(right > fast)
    True
    """
    if backend.has_engine(y):
        return _filtered(tables, y, seen, keep=False)[0]
    return arrays.forward(tables, y, seen)[0]


def posterior(tables: Tables, y: Array, seen: Array) -> ManyJumps:
    """Return the posterior of every trace (C, n) in units of its noise."""
    xp = backend.namespace(y)
    if backend.has_engine(y):
        evidence, *kept = _filtered(tables, y, seen, keep=True)
        out = _smoothed(tables, *kept)
    else:
        evidence, *kept = arrays.forward(tables, y, seen)
        out = arrays.backward(tables, *kept)
    count, square, active, calcium, calcium_square = (out[:, row, :] for row in range(5))
    # The first frame's jump is not told from where calcium started: as unsure as ever.
    square = xp.concat([tables.rest_square[:, None], square[:, 1:]], axis=1)
    zero, one = 0 * count, 0 * count + 1
    return ManyJumps(
        log_evidence=evidence,
        number=count,
        spread=xp.sqrt(xp.maximum(square - count**2, zero)),
        active=xp.minimum(xp.maximum(active, zero), one),
        calcium=calcium,
        calcium_spread=xp.sqrt(xp.maximum(calcium_square - calcium**2, zero)),
    )


def bytes_of_posterior(tables: Tables, n: int) -> int:
    """Return the memory that the posterior of one trace of n frames takes."""
    K = tables.calcium.shape[0]
    return n * (2 * 4 * K + 8 * 24)


def _filtered(tables: Tables, y: Array, seen: Array, keep: bool) -> tuple[Array, ...]:
    xp = backend.namespace(y)
    device = backend.device_of(y)
    (cells, n), (options, K) = y.shape, tables.target.shape[1:]
    first = first_sources(tables.target)
    work = xp.empty((cells, kernels.FORWARD_ROWS, K), dtype=xp.float64, device=device)
    work[:, 0, :] = tables.begin
    work[:, 1, :] = tables.begin * tables.calcium
    work[:, 2, :] = tables.begin * tables.calcium**2
    evidence = xp.empty((cells,), dtype=xp.float64, device=device)
    shape = (cells, n, K) if keep else (1,)
    weights = xp.empty(shape, dtype=xp.float32, device=device)
    likelihoods = xp.empty(shape, dtype=xp.float32, device=device)
    ranges = xp.empty((cells, n, 2) if keep else (1,), dtype=xp.int32, device=device)
    kernels.forward[(cells,)](
        y, xp.astype(seen, xp.uint8), tables.calcium, tables.target, tables.share, first,
        tables.weight, tables.level, tables.height, tables.rise, tables.floor, work, evidence,
        weights, likelihoods, ranges, n, NOTHING=NOTHING, FAINT=FAINT, NEGLIGIBLE=NEGLIGIBLE,
        K=K, J=options, KEEP=keep, LANES=kernels.LANES, ROWS=kernels.FORWARD_ROWS, num_warps=1,
    )  # fmt: skip
    return evidence, weights, likelihoods, ranges


def _smoothed(tables: Tables, weights: Array, likelihoods: Array, ranges: Array) -> Array:
    xp = backend.namespace(weights)
    device = backend.device_of(weights)
    cells, n, K = weights.shape
    work = xp.ones((cells, kernels.BACKWARD_ROWS, K), dtype=xp.float64, device=device)
    out = xp.zeros((cells, 5, n), dtype=xp.float64, device=device)
    kernels.backward[(cells,)](
        tables.calcium, tables.number, tables.target, tables.share, tables.weight, weights,
        likelihoods, ranges, work, out, n, K=K, J=tables.target.shape[1],
        LANES=kernels.LANES, ROWS=kernels.BACKWARD_ROWS, num_warps=1,
    )  # fmt: skip
    return out
