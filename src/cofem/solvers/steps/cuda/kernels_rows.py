"""The vector work of one CG step on a GPU, each stage one pass over memory (Triton).

Arrays are (rows, n, lanes), real. Two lanes are the real and the imaginary part of a
complex row, or two real systems that travel together as one complex row (``PAIRED``):
then every lane has its own scalars. Row scalars are summed in two stages: every
program leaves one number for its share of a row, and the kernel that needs the total
adds them up itself. So nothing waits, nothing is atomic, and the sums come out the
same every time.

The three stages of a step are

- ``turn``: P = M⁻¹R/√ρ + √(ρ/ρ_old) P, and Σ diagonal |P|²; for the DCT also the
  spectrum whose inverse FFT is the (even-odd permuted) signal;
- ``weigh``: multiply by the measured samples' weights, and Σ weight |signal|²;
- ``descend``: X += γ√ρP, R −= γ√ρ(ΦᴴΦ + diagonal)P, and Σ R²/M; for the DCT out of
  the signal's FFT.

The directions are those of the textbook divided by √ρ: two systems of a pair go through
one transform, and the rounding of the larger one would disturb the smaller.

A row that is done, or that has shown a curvature that is not positive, stays as it is.
"""

from __future__ import annotations

from typing import Any

from cofem.backend._torch.triton_or_nothing import jit, tl

# Triton compiles what these functions say; Python's types mean nothing to it.
# ruff: noqa: SIM102
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"


def number_type(double: bool) -> Any:
    """Triton's name for the type of the numbers."""
    return tl.float64 if double else tl.float32


@jit
def _totals(sums, row, SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr):
    """Add up the programs' shares of one row: (LANES,)."""
    lane = tl.arange(0, LANES)
    slot = tl.arange(0, SLOTS)
    parts = tl.load(sums + (row * LANES + lane)[None, :] * SLOTS + slot[:, None])
    total = tl.sum(parts, axis=0)
    if not PAIRED:
        total = tl.zeros_like(total) + tl.sum(total, axis=0)
    return total


@jit
def _leave_sum(sums, row, value, SLOTS: tl.constexpr, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    tl.store(sums + (row * LANES + lane) * SLOTS + tl.program_id(1), value.to(tl.float64))


@jit
def _progress(rho_sums, rho, goal, done, bad, row,
              SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr):  # fmt: skip
    """Return the residual's size now, before the last step, and whether the row is done."""
    lane = row * LANES + tl.arange(0, LANES)
    now = _totals(rho_sums, row, SLOTS, LANES, PAIRED)
    before = tl.load(rho + lane)
    finished = (tl.load(done + lane) != 0) | (tl.load(bad + lane) != 0)
    return now, before, finished | (now <= tl.load(goal + lane))


@jit
def _record(rho_sums, rho, goal, done, bad, taken, ratios, row, KEEP: tl.constexpr,
            SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr):  # fmt: skip
    """Write down where the row stands: one program of the second stage does it."""
    now, before, finished = _progress(rho_sums, rho, goal, done, bad, row, SLOTS, LANES, PAIRED)
    lane = row * LANES + tl.arange(0, LANES)
    if KEEP:
        step = tl.load(taken) - 1
        width = tl.num_programs(0) * LANES
        tl.store(ratios + step * width + lane, now / before, mask=(lane >= 0) & (step >= 0))
    # A row at rest keeps the ρ of its direction, so that it can go on where it stopped.
    tl.store(rho + lane, tl.where(finished, before, now))
    tl.store(done + lane, finished.to(tl.int32))


@jit
def _step_length(rho, done, bad, diagonal_sums, operator_sums, row,
                 SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr):  # fmt: skip
    """Return γ, γ√ρ, whether the row takes the step, and whether A is not positive."""
    lane = row * LANES + tl.arange(0, LANES)
    curvature = _totals(diagonal_sums, row, SLOTS, LANES, PAIRED)
    curvature += _totals(operator_sums, row, SLOTS, LANES, PAIRED)
    going = (tl.load(done + lane) == 0) & (tl.load(bad + lane) == 0)
    positive = curvature > 0  # false for NaN too
    live = going & positive
    length = 1 / tl.where(live, curvature, 1.0)
    wrong = going & ((curvature <= 0) | (curvature != curvature))
    return length, tl.sqrt(tl.load(rho + lane)) * length, live, wrong


@jit
def _record_step(steps, bad, taken, lengths, row, length, live, wrong,
                 LANES: tl.constexpr, KEEP: tl.constexpr):  # fmt: skip
    lane = row * LANES + tl.arange(0, LANES)
    tl.store(steps + lane, tl.load(steps + lane) + live.to(tl.int32))
    tl.store(bad + lane, tl.load(bad + lane) | wrong.to(tl.int32))
    if KEEP:
        width = tl.num_programs(0) * LANES
        step = tl.load(taken)
        tl.store(lengths + step * width + lane, tl.where(live, length, 0.0))


# -- rows as they are ----------------------------------------------------------------


@jit
def turn(p, r, inverse, diagonal, rho_sums, rho, goal, done, bad, taken, diagonal_sums,
         n, tiles, SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr,
         BLOCK: tl.constexpr, TYPE: tl.constexpr):  # fmt: skip
    """P = M⁻¹R/√ρ + √(ρ/ρ_old) P, and Σ diagonal |P|²."""
    row = tl.program_id(0).to(tl.int64)
    now, before, finished = _progress(rho_sums, rho, goal, done, bad, row, SLOTS, LANES, PAIRED)
    ratio = tl.sqrt(now / before).to(TYPE)[None, :]
    unit = (1 / tl.sqrt(now)).to(TYPE)[None, :]
    frozen = finished[None, :]
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(taken, tl.load(taken) + 1)
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((BLOCK, LANES), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        j = (tile * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = j < n
        at = row * n * LANES + j * LANES + lane
        old = tl.load(p + at, mask=inside, other=0.0)
        new = tl.load(inverse + j, mask=inside, other=0.0) * tl.load(r + at, mask=inside, other=0.0)
        new = tl.where(frozen, old, unit * new + ratio * old)
        tl.store(p + at, new, mask=inside)
        total += (tl.load(diagonal + j, mask=inside, other=0.0) * new) * new
    _leave_sum(diagonal_sums, row, tl.sum(total, axis=0), SLOTS, LANES)


@jit
def weigh(v, weights, operator_sums, rho_sums, rho, goal, done, bad, taken, ratios,
          n, tiles, SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr,
          BLOCK: tl.constexpr, TYPE: tl.constexpr, RECORD: tl.constexpr,
          KEEP: tl.constexpr):  # fmt: skip
    """V ∘= weights, and Σ weights |V|²."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((BLOCK, LANES), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        j = (tile * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = j < n
        at = row * n * LANES + j * LANES + lane
        value = tl.load(v + at, mask=inside, other=0.0)
        weighed = tl.load(weights + j, mask=inside, other=0.0) * value
        tl.store(v + at, weighed, mask=inside)
        total += weighed * value
    _leave_sum(operator_sums, row, tl.sum(total, axis=0), SLOTS, LANES)
    if RECORD:
        if tl.program_id(1) == 0:
            _record(rho_sums, rho, goal, done, bad, taken, ratios, row, KEEP,
                    SLOTS, LANES, PAIRED)  # fmt: skip


@jit
def dot(v, p, operator_sums, rho_sums, rho, goal, done, bad, taken, ratios,
        n, across, tiles, SLOTS: tl.constexpr, LANES: tl.constexpr, PAIRED: tl.constexpr,
        BLOCK: tl.constexpr, TYPE: tl.constexpr, RECORD: tl.constexpr,
        KEEP: tl.constexpr):  # fmt: skip
    """Re⟨P, V⟩, for operators whose product is a black box; rows of V are ``across`` apart."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((BLOCK, LANES), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        j = (tile * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = j < n
        at = row * n * LANES + j * LANES + lane
        image = tl.load(v + row * across + j * LANES + lane, mask=inside, other=0.0)
        total += image * tl.load(p + at, mask=inside, other=0.0)
    _leave_sum(operator_sums, row, tl.sum(total, axis=0), SLOTS, LANES)
    if RECORD:
        if tl.program_id(1) == 0:
            _record(rho_sums, rho, goal, done, bad, taken, ratios, row, KEEP,
                    SLOTS, LANES, PAIRED)  # fmt: skip


@jit
def descend(x, r, p, v, inverse, diagonal, rho, done, bad, diagonal_sums, operator_sums,
            rho_sums, steps, taken, lengths, n, across, tiles, SLOTS: tl.constexpr,
            LANES: tl.constexpr, PAIRED: tl.constexpr, BLOCK: tl.constexpr,
            TYPE: tl.constexpr, RESIDUAL: tl.constexpr, KEEP: tl.constexpr):  # fmt: skip
    """One step; with RESIDUAL instead R −= (ΦᴴΦ + diagonal) P for every row.

    Rows of V are ``across`` numbers apart.
    """
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)[None, :]
    if RESIDUAL:
        gamma = tl.full((1, LANES), 1.0, dtype=TYPE)
        moves = tl.full((1, LANES), 1, dtype=tl.int1)
    else:
        length, distance, live, wrong = _step_length(
            rho, done, bad, diagonal_sums, operator_sums, row, SLOTS, LANES, PAIRED
        )
        gamma, moves = distance.to(TYPE)[None, :], live[None, :]
    total = tl.zeros((BLOCK, LANES), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        j = (tile * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = j < n
        at = row * n * LANES + j * LANES + lane
        pj = tl.load(p + at, mask=inside, other=0.0)
        g = tl.load(v + row * across + j * LANES + lane, mask=inside, other=0.0)
        g += tl.load(diagonal + j, mask=inside, other=0.0) * pj
        rj = tl.load(r + at, mask=inside, other=0.0)
        rj = tl.where(moves, rj - gamma * g, rj)
        tl.store(r + at, rj, mask=inside)
        if not RESIDUAL:
            xj = tl.load(x + at, mask=inside, other=0.0)
            tl.store(x + at, tl.where(moves, xj + gamma * pj, xj), mask=inside)
        total += (tl.load(inverse + j, mask=inside, other=0.0) * rj) * rj
    _leave_sum(rho_sums, row, tl.sum(total, axis=0), SLOTS, LANES)
    if not RESIDUAL:
        if tl.program_id(1) == 0:
            _record_step(steps, bad, taken, lengths, row, length, live, wrong, LANES, KEEP)


@jit
def weighted_norm(r, weights, sums, n, tiles, SLOTS: tl.constexpr, LANES: tl.constexpr,
                  BLOCK: tl.constexpr):  # fmt: skip
    """Σ weights |R|² in double precision, whose range holds any square."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((BLOCK, LANES), dtype=tl.float64)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        j = (tile * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = j < n
        at = row * n * LANES + j * LANES + lane
        value = tl.load(r + at, mask=inside, other=0.0).to(tl.float64)
        total += tl.load(weights + j, mask=inside, other=0.0).to(tl.float64) * value * value
    _leave_sum(sums, row, tl.sum(total, axis=0), SLOTS, LANES)


@jit
def mark_running(rho_sums, goal, done, bad, answer, SLOTS: tl.constexpr,
                 LANES: tl.constexpr, PAIRED: tl.constexpr):  # fmt: skip
    """How many lanes of each row still run."""
    row = tl.program_id(0)
    at = row * LANES + tl.arange(0, LANES)
    now = _totals(rho_sums, row, SLOTS, LANES, PAIRED)
    finished = (tl.load(done + at) != 0) | (tl.load(bad + at) != 0)
    running = tl.where(finished | (now <= tl.load(goal + at)), 0, 1)
    tl.store(answer + row, tl.sum(running, axis=0))
