"""Sums over probes, one pass over them (Triton)."""

from __future__ import annotations

from cofem.backend._torch.triton_or_nothing import jit, tl

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"


@jit
def probe_sums(p, x, scaling, first, second, n, probes, LANES: tl.constexpr,
               BLOCK: tl.constexpr):  # fmt: skip
    """Σ e and Σ e², e = Re(p̄∘x)∘scaling.

    Numbers have LANES parts, one after the other. Sums are in double precision.
    """
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = j < n
    s = tl.load(scaling + j, mask=inside, other=0.0)
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    squares = tl.zeros((BLOCK,), dtype=tl.float64)
    for k in range(probes):
        at = (k * n + j) * LANES
        one = tl.load(p + at, mask=inside, other=0.0) * tl.load(x + at, mask=inside, other=0.0)
        if LANES == 2:
            one += tl.load(p + at + 1, mask=inside, other=0.0) * tl.load(
                x + at + 1, mask=inside, other=0.0
            )
        one = (one * s).to(tl.float64)
        total += one
        squares += one * one
    tl.store(first + j, total, mask=inside)
    tl.store(second + j, squares, mask=inside)
