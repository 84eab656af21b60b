"""The stages of a CG step on rows of DCT coefficients (Triton), see ``kernels_rows``.

For a signal in the order even, then odd backwards, V = fft(signal) and θ = πk/2n
(Makhoul 1980): coefficient k is c_k (e^{−iθ}V_k + e^{iθ}V_{n−k})/2. It holds for complex
rows too, so two real rows go through one complex FFT. Each program works on k and n − k.
The tables hold cos θ and sin θ times c_k/2: what the way in and the way out share.
"""

from __future__ import annotations

from cofem.backend._torch.triton_or_nothing import jit, tl
from cofem.solvers.steps.cuda.kernels_rows import (
    _leave_sum,
    _progress,
    _record_step,
    _step_length,
)

# ruff: noqa: SIM102
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"


@jit
def _first(pair):
    return tl.sum(tl.where(tl.arange(0, 2) == 0, pair, tl.zeros_like(pair)), axis=0)


@jit
def _second(pair):
    return tl.sum(tl.where(tl.arange(0, 2) == 1, pair, tl.zeros_like(pair)), axis=0)


@jit
def _load_pair(base, j, inside):
    lane = tl.arange(0, 2)[None, :]
    both = tl.load(base + j[:, None] * 2 + lane, mask=inside[:, None], other=0.0)
    return tl.split(both)


@jit
def _store_pair(base, j, re, im, inside):
    lane = tl.arange(0, 2)[None, :]
    tl.store(base + j[:, None] * 2 + lane, tl.join(re, im), mask=inside[:, None])


@jit
def _turned(p, r, inverse, j, inside, unit_a, unit_b, ratio_a, ratio_b, frozen_a, frozen_b,
            UPDATE: tl.constexpr):  # fmt: skip
    a, b = _load_pair(p, j, inside)
    if not UPDATE:
        a, b = unit_a * a, unit_b * b
    else:
        ra, rb = _load_pair(r, j, inside)
        m = tl.load(inverse + j, mask=inside, other=0.0)
        a = tl.where(frozen_a, a, unit_a * (m * ra) + ratio_a * a)
        b = tl.where(frozen_b, b, unit_b * (m * rb) + ratio_b * b)
        _store_pair(p, j, a, b, inside)
    return a, b


@jit
def turn_dct(p, r, z, inverse, diagonal, cosine, sine, rho_sums, rho, goal, done, bad, taken,
             sizes, diagonal_sums, n, tiles, SLOTS: tl.constexpr,
             PAIRED: tl.constexpr, BLOCK: tl.constexpr, TYPE: tl.constexpr,
             UPDATE: tl.constexpr):  # fmt: skip
    """As ``turn``, and Z, whose unscaled inverse FFT is the signal.

    Without UPDATE only Z, of P divided by its ``sizes``: the larger of two systems would
    leave its rounding in the smaller.
    """
    row = tl.program_id(0).to(tl.int64)
    p += row * n * 2
    r += row * n * 2
    z += row * n * 2
    if UPDATE:
        now, before, finished = _progress(rho_sums, rho, goal, done, bad, row, SLOTS, 2, PAIRED)
        ratio, unit = tl.sqrt(now / before).to(TYPE), (1 / tl.sqrt(now)).to(TYPE)
        ratio_a, ratio_b = _first(ratio), _second(ratio)
        unit_a, unit_b = _first(unit), _second(unit)
        stay = finished.to(tl.int32)
        frozen_a, frozen_b = _first(stay) != 0, _second(stay) != 0
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            tl.store(taken, tl.load(taken) + 1)
    else:
        ratio_a, ratio_b = 0.0, 0.0
        frozen_a, frozen_b = True, True
        unit = (1 / tl.load(sizes + row * 2 + tl.arange(0, 2))).to(TYPE)
        unit_a, unit_b = _first(unit), _second(unit)
    sum_a = tl.zeros((BLOCK,), dtype=TYPE)
    sum_b = tl.zeros((BLOCK,), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        k = tile * BLOCK + tl.arange(0, BLOCK)
        inside = 2 * k <= n
        m = n - k
        mirrored = inside & (k > 0) & (m > k)
        ua, ub = _turned(
            p, r, inverse, k, inside, unit_a, unit_b, ratio_a, ratio_b, frozen_a, frozen_b, UPDATE
        )
        va, vb = _turned(
            p, r, inverse, m, mirrored, unit_a, unit_b, ratio_a, ratio_b, frozen_a, frozen_b, UPDATE
        )
        weight = tl.load(diagonal + k, mask=inside, other=0.0)
        weight_m = tl.load(diagonal + m, mask=mirrored, other=0.0)
        sum_a += (weight * ua) * ua + (weight_m * va) * va
        sum_b += (weight * ub) * ub + (weight_m * vb) * vb
        va = tl.where(m == k, ua, va)
        vb = tl.where(m == k, ub, vb)
        twice = tl.where(k == 0, 2, 1).to(TYPE)
        c = tl.load(cosine + k, mask=inside, other=0.0) * twice
        s = tl.load(sine + k, mask=inside, other=0.0)
        # e^{iθ}(u − iv) and, n − k, e^{−iθ}(u + iv)
        re, im = ua + vb, ub - va
        _store_pair(z, k, c * re - s * im, c * im + s * re, inside)
        re, im = ua - vb, ub + va
        _store_pair(z, m, c * re + s * im, c * im - s * re, mirrored)
    if UPDATE:
        total = tl.join(tl.sum(sum_a, axis=0), tl.sum(sum_b, axis=0))
        _leave_sum(diagonal_sums, row, total, SLOTS, 2)


@jit
def _descended(x, r, p, inverse, diagonal, j, inside, ga, gb, step_a, step_b, live_a, live_b,
               RESIDUAL: tl.constexpr):  # fmt: skip
    pa, pb = _load_pair(p, j, inside)
    d = tl.load(diagonal + j, mask=inside, other=0.0)
    ga += d * pa
    gb += d * pb
    ra, rb = _load_pair(r, j, inside)
    ra = tl.where(live_a, ra - step_a * ga, ra)
    rb = tl.where(live_b, rb - step_b * gb, rb)
    _store_pair(r, j, ra, rb, inside)
    if not RESIDUAL:
        xa, xb = _load_pair(x, j, inside)
        xa = tl.where(live_a, xa + step_a * pa, xa)
        xb = tl.where(live_b, xb + step_b * pb, xb)
        _store_pair(x, j, xa, xb, inside)
    w = tl.load(inverse + j, mask=inside, other=0.0)
    return (w * ra) * ra, (w * rb) * rb


@jit
def descend_dct(x, r, p, v, inverse, diagonal, cosine, sine, rho, done, bad, diagonal_sums,
                operator_sums, rho_sums, steps, taken, lengths, sizes, n, tiles,
                SLOTS: tl.constexpr, PAIRED: tl.constexpr, BLOCK: tl.constexpr,
                TYPE: tl.constexpr, RESIDUAL: tl.constexpr, KEEP: tl.constexpr):  # fmt: skip
    """As ``descend``, with ΦᴴΦP taken out of the FFT of the weighed signal."""
    row = tl.program_id(0).to(tl.int64)
    if RESIDUAL:
        step_a, step_b = 1.0, 1.0
        live_a, live_b = True, True
        size = tl.load(sizes + row * 2 + tl.arange(0, 2)).to(TYPE)
        size_a, size_b = _first(size), _second(size)
    else:
        size_a, size_b = 1.0, 1.0
        length, distance, live, wrong = _step_length(
            rho, done, bad, diagonal_sums, operator_sums, row, SLOTS, 2, PAIRED
        )
        gamma, moves = distance.to(TYPE), live.to(tl.int32)
        step_a, step_b = _first(gamma), _second(gamma)
        live_a, live_b = _first(moves) != 0, _second(moves) != 0
    x += row * n * 2
    r += row * n * 2
    p += row * n * 2
    v += row * n * 2
    sum_a = tl.zeros((BLOCK,), dtype=TYPE)
    sum_b = tl.zeros((BLOCK,), dtype=TYPE)
    for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
        k = tile * BLOCK + tl.arange(0, BLOCK)
        inside = 2 * k <= n
        m = tl.where(k == 0, 0, n - k)
        mirrored = inside & (m > k)
        c = tl.load(cosine + k, mask=inside, other=0.0)
        s = tl.load(sine + k, mask=inside, other=0.0)
        re, im = _load_pair(v, k, inside)
        ar, ai = c * re + s * im, c * im - s * re  # e^{−iθ} V_k
        re, im = _load_pair(v, m, inside)
        br, bi = c * re - s * im, c * im + s * re  # e^{iθ} V_{n−k}
        ga, gb = size_a * (ar + br), size_b * (ai + bi)
        one_a, one_b = _descended(x, r, p, inverse, diagonal, k, inside, ga, gb,
                                  step_a, step_b, live_a, live_b, RESIDUAL)  # fmt: skip
        ga, gb = size_a * (bi - ai), size_b * (ar - br)
        two_a, two_b = _descended(x, r, p, inverse, diagonal, m, mirrored, ga, gb,
                                  step_a, step_b, live_a, live_b, RESIDUAL)  # fmt: skip
        sum_a += one_a + two_a
        sum_b += one_b + two_b
    total = tl.join(tl.sum(sum_a, axis=0), tl.sum(sum_b, axis=0))
    _leave_sum(rho_sums, row, total, SLOTS, 2)
    if not RESIDUAL:
        if tl.program_id(1) == 0:
            _record_step(steps, bad, taken, lengths, row, length, live, wrong, 2, KEEP)
