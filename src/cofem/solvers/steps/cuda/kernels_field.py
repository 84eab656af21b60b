"""The c that gives the mean field h = α/(α + cθ) a trace (Triton).

All programs of one launch work on the sums of a Newton step, meet, and take the step
together: every program adds up the same numbers in the same order.
"""

from __future__ import annotations

from cofem.backend._torch.triton_or_nothing import jit, tl

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"


@jit
def _share(alpha, theta, c, n, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Σ h and Σ h(1 − h), h = α/(α + cθ), of this program's tiles, in double precision."""
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    spread = tl.zeros((BLOCK,), dtype=tl.float64)
    for tile in range(tl.program_id(0), (n + BLOCK - 1) // BLOCK, SLOTS):
        j = tile * BLOCK + tl.arange(0, BLOCK)
        inside = j < n
        a = tl.load(alpha + j, mask=inside, other=0.0).to(tl.float64)
        b = c * tl.load(theta + j, mask=inside, other=1.0).to(tl.float64)
        h = a / (a + b)
        total += tl.where(inside, h, 0.0)
        spread += tl.where(inside, h * (b / (a + b)), 0.0)
    return tl.sum(total, axis=0), tl.sum(spread, axis=0)


@jit
def _sums(alpha, theta, c, n, sums, arrived, turn, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Σ h and Σ h(1 − h) over all programs, the same bits in each.

    Shares lie in two places in turn: who writes the next ones has met the others since
    they read the last ones from there.
    """
    total, spread = _share(alpha, theta, c, n, SLOTS, BLOCK)
    here = sums + (turn % 2) * 2 * SLOTS
    tl.store(here + tl.program_id(0), total)
    tl.store(here + SLOTS + tl.program_id(0), spread)
    tl.debug_barrier()
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < (turn + 1) * SLOTS:
        pass
    tl.debug_barrier()
    slot = tl.arange(0, SLOTS)
    total = tl.sum(tl.load(here + slot, volatile=True), axis=0)
    spread = tl.sum(tl.load(here + SLOTS + slot, volatile=True), axis=0)
    return total, spread


@jit
def field_factor(alpha, theta, limits, sums, arrived, answer, n, SLOTS: tl.constexpr,
                 BLOCK: tl.constexpr):  # fmt: skip
    """Find c = top·e^t with Σ h = trace by a guarded Newton iteration."""
    trace = tl.load(limits)
    top = tl.load(limits + 1)
    low = trace * 0 - 45.0
    high = trace * 0
    turn = 0
    total, spread = _sums(alpha, theta, top, n, sums, arrived, turn, SLOTS, BLOCK)
    t = tl.where(trace >= n, low, high)  # nothing to find at either end
    moved = tl.where((trace >= n) | (total >= trace), 0.0, 1.0).to(tl.float64)
    while (moved > 1e-6) & (turn < 60):
        excess = total - trace
        low = tl.where(excess > 0, t, low)
        high = tl.where(excess > 0, high, t)
        following = t + excess / spread
        outside = ~((following > low) & (following < high))  # and where spread is zero
        following = tl.where(outside, 0.5 * (low + high), following)
        moved = tl.abs(following - t)
        t = following
        turn += 1
        total, spread = _sums(alpha, theta, top * tl.exp(t), n, sums, arrived, turn, SLOTS, BLOCK)
    tl.store(answer, top * tl.exp(t))
