"""Sums over the mean field h = α/(α + cθ), and the c that gives it a trace (Triton)."""

from __future__ import annotations

from cofem.backend._torch.kernels import jit, tl

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"


@jit
def _field_at(alpha, theta, c, n, first, stride, BLOCK: tl.constexpr):
    """Σ h and Σ h(1 − h), h = α/(α + cθ), over every ``stride``-th tile, in double precision."""
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    spread = tl.zeros((BLOCK,), dtype=tl.float64)
    for tile in range(first, (n + BLOCK - 1) // BLOCK, stride):
        j = tile * BLOCK + tl.arange(0, BLOCK)
        inside = j < n
        a = tl.load(alpha + j, mask=inside, other=0.0).to(tl.float64)
        b = c * tl.load(theta + j, mask=inside, other=1.0).to(tl.float64)
        h = a / (a + b)
        total += tl.where(inside, h, 0.0)
        spread += tl.where(inside, h * (b / (a + b)), 0.0)
    return tl.sum(total, axis=0), tl.sum(spread, axis=0)


@jit
def field_sums(alpha, theta, c, sums, n, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Shares of the two sums at a given c."""
    slot = tl.program_id(0)
    total, spread = _field_at(alpha, theta, tl.load(c), n, slot, SLOTS, BLOCK)
    tl.store(sums + slot, total)
    tl.store(sums + SLOTS + slot, spread)


@jit
def field_factor(alpha, theta, limits, answer, n, BLOCK: tl.constexpr):
    """Find c = top·e^t with Σ h = trace by a guarded Newton iteration, as one program."""
    trace = tl.load(limits)
    top = tl.load(limits + 1)
    low = trace * 0 - 45.0
    high = trace * 0
    total, spread = _field_at(alpha, theta, top, n, 0, 1, BLOCK)
    t = tl.where(trace >= n, low, high)  # nothing to find at either end
    moved = tl.where((trace >= n) | (total >= trace), 0.0, 1.0).to(tl.float64)
    count = 0
    while (moved > 1e-6) & (count < 60):
        excess = total - trace
        low = tl.where(excess > 0, t, low)
        high = tl.where(excess > 0, high, t)
        following = t + excess / spread
        outside = ~((following > low) & (following < high))  # and where spread is zero
        following = tl.where(outside, 0.5 * (low + high), following)
        moved = tl.abs(following - t)
        t = following
        total, spread = _field_at(alpha, theta, top * tl.exp(t), n, 0, 1, BLOCK)
        count += 1
    tl.store(answer, top * tl.exp(t))
