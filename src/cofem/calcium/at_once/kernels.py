"""The recursions of ``jumps.passes`` in Triton: one program, of one warp, follows one cell.

A frame's states are worked on in blocks of ``LANES``. What a state is given by an option comes
from the states between two entries of ``first`` (see ``tables.first_sources``), so that every
lane gathers its own sum: nothing is atomic, and sums come out the same every time. Only states
that are followed are read. Frames follow each other through ``work``, which stays in the cache;
its two halves are read and written in turn.
"""

from __future__ import annotations

from cofem.backend._torch.triton_or_nothing import jit, tl

# Triton compiles what these functions say; Python's types mean nothing to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

LANES = 32
# What ``forward`` keeps of a state, and ``backward``: rows of ``work``.
FORWARD_ROWS, BACKWARD_ROWS = 8, 2


@jit
def _gathered(old, target, share, first, weight, cell, i, start, low, high, top,
              K: tl.constexpr, J: tl.constexpr, LANES: tl.constexpr):  # fmt: skip
    """Return what arrives at states i: weight, and weighted mean and square."""
    mass = tl.zeros([LANES], tl.float64)
    mean = tl.zeros([LANES], tl.float64)
    square = tl.zeros([LANES], tl.float64)
    for j in range(J):
        row = (cell * J + j) * K
        reached = tl.load(target + row + low)
        last = tl.load(target + row + high) + 1
        if (reached < start + LANES) & (last >= start):
            entry = first + (cell * J + j) * (K + 1)
            inside = i <= top
            here = tl.load(entry + i, mask=inside, other=0)
            begin = tl.load(entry + i - 1, mask=inside & (i > 0), other=0)
            end = tl.load(entry + i + 1, mask=inside, other=0)
            begin = tl.maximum(begin, low)
            end = tl.where(inside, tl.minimum(end, high + 1), begin)
            chance = tl.load(weight + cell * J + j)
            for d in range(tl.max(end - begin, axis=0)):
                k = begin + d
                on = k < end
                up = tl.load(share + row + k, mask=on, other=0.0)
                part = tl.where(on, chance * tl.where(k >= here, 1 - up, up), 0.0)
                mass += part * tl.load(old + k, mask=on, other=0.0)
                mean += part * tl.load(old + K + k, mask=on, other=0.0)
                square += part * tl.load(old + 2 * K + k, mask=on, other=0.0)
    return mass, mean, square


@jit
def forward(y, seen, calcium, target, share, first, weight, level, height, rise, floor, work,
            evidence, weights, likelihoods, ranges, n, NOTHING: tl.constexpr,
            FAINT: tl.constexpr, NEGLIGIBLE: tl.constexpr, K: tl.constexpr, J: tl.constexpr,
            KEEP: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip
    """Filter one cell; with ``KEEP``, leave weights, likelihoods and ranges of states."""
    cell = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    base = work + cell * ROWS * K
    tall = tl.load(height + cell)
    noise, rho, calm = 1 / (tall * tall), tl.load(rise + cell), tl.load(level + cell)
    low = tl.load(floor + cell)
    high = low * 0 + (K - 1)
    total_evidence = calm * 0
    for t in range(n):
        old, new = base + (t % 2) * 3 * K, base + ((t + 1) % 2) * 3 * K
        value = (tl.load(y + cell * n + t) - calm) / tall
        there = tl.load(seen + cell * n + t) != 0
        bottom = tl.load(target + cell * J * K + low)
        top = tl.minimum(tl.load(target + (cell * J + J - 1) * K + high) + 1, K - 1)
        best = tl.full([LANES], -1e300, tl.float64)
        for start in range(bottom, top + 1, LANES):
            i = start + lane
            mass, mean, square = _gathered(
                old, target, share, first, weight, cell, i, start, low, high, top, K, J, LANES
            )
            inside = (i <= top) & (mass > NOTHING)
            part = 1 / tl.where(inside, mass, 1.0)
            centre = mean * part
            spread = tl.maximum(square * part - centre * centre, 0.0) * rho * rho
            centre = rho * centre + (1 - rho) * tl.load(calcium + i, mask=i <= top, other=0.0)
            error, sharp = value - centre, 1 / (spread + noise)
            chance = tl.where(there, -0.5 * error * error * sharp, 0.0)
            factor = tl.where(there, tl.sqrt(noise * sharp), 1.0)
            centre = tl.where(there, centre + spread * sharp * error, centre)
            spread = tl.where(there, spread * noise * sharp, spread)
            tl.store(new + i, tl.where(inside, mass, 0.0), mask=i <= top)
            tl.store(new + K + i, centre, mask=i <= top)
            tl.store(new + 2 * K + i, centre * centre + spread, mask=i <= top)
            tl.store(base + 6 * K + i, chance, mask=i <= top)
            tl.store(base + 7 * K + i, factor, mask=i <= top)
            best = tl.maximum(best, tl.where(inside, chance, -1e300))
        peak = tl.max(best, axis=0)
        tl.debug_barrier()
        sums = tl.zeros([LANES], tl.float64)
        for start in range(bottom, top + 1, LANES):
            i = start + lane
            inside = i <= top
            away = tl.load(base + 6 * K + i, mask=inside, other=0.0) - peak
            factor = tl.load(base + 7 * K + i, mask=inside, other=0.0)
            mass = tl.load(new + i, mask=inside, other=0.0)
            follows = (away > NEGLIGIBLE) & (mass > 0)
            like = tl.where(follows, factor * tl.exp(tl.minimum(away, 0.0)), 0.0)
            mass = mass * like
            tl.store(base + 6 * K + i, like, mask=inside)
            tl.store(new + i, mass, mask=inside)
            sums += mass
        total = tl.sum(sums, axis=0)
        total_evidence += peak + tl.log(total)
        tl.debug_barrier()
        lowest = tl.full([LANES], K, tl.int32)
        highest = tl.zeros([LANES], tl.int32)
        for start in range(bottom, top + 1, LANES):
            i = start + lane
            inside = i <= top
            mass = tl.load(new + i, mask=inside, other=0.0)
            kept = inside & (mass > FAINT * total)
            mass = tl.where(kept, mass / total, 0.0)
            mean = tl.load(new + K + i, mask=inside, other=0.0)
            square = tl.load(new + 2 * K + i, mask=inside, other=0.0)
            tl.store(new + i, mass, mask=inside)
            tl.store(new + K + i, mass * mean, mask=inside)
            tl.store(new + 2 * K + i, mass * square, mask=inside)
            lowest = tl.minimum(lowest, tl.where(kept, i, K))
            highest = tl.maximum(highest, tl.where(kept, i, 0))
            if KEEP:
                like = tl.load(base + 6 * K + i, mask=inside, other=0.0)
                place = (cell * n + t) * K + i
                tl.store(weights + place, mass.to(tl.float32), mask=inside)
                tl.store(likelihoods + place, tl.where(kept, like, 0.0).to(tl.float32), mask=inside)
        low, high = tl.min(lowest, axis=0), tl.max(highest, axis=0)
        if KEEP:
            tl.store(ranges + (cell * n + t) * 2, low)
            tl.store(ranges + (cell * n + t) * 2 + 1, high)
        tl.debug_barrier()
    tl.store(evidence + cell, total_evidence)


@jit
def backward(calcium, number, target, share, weight, weights, likelihoods, ranges, work, out, n,
             K: tl.constexpr, J: tl.constexpr, LANES: tl.constexpr,
             ROWS: tl.constexpr):  # fmt: skip
    """Smooth one cell; rows of out: count, its square, active, calcium, its square."""
    cell = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    later, ahead = work + cell * ROWS * K, work + cell * ROWS * K + K
    scale = tl.load(calcium) * 0 + 1
    for s in range(n):
        t = n - 1 - s
        low = tl.load(ranges + (cell * n + t) * 2)
        high = tl.load(ranges + (cell * n + t) * 2 + 1)
        sums = tl.zeros([LANES], tl.float64)
        centre = tl.zeros([LANES], tl.float64)
        square = tl.zeros([LANES], tl.float64)
        for start in range(low, high + 1, LANES):
            k = start + lane
            inside = k <= high
            place = (cell * n + t) * K + k
            known = tl.load(later + k, mask=inside, other=0.0) * scale
            mass = tl.load(weights + place, mask=inside, other=0.0).to(tl.float64) * known
            like = tl.load(likelihoods + place, mask=inside, other=0.0).to(tl.float64)
            at = tl.load(calcium + k, mask=inside, other=0.0)
            tl.store(ahead + k, known * like, mask=inside)
            sums += mass
            centre += mass * at
            square += mass * at * at
        total = tl.sum(sums, axis=0)
        tl.store(out + (cell * 5 + 3) * n + t, tl.sum(centre, axis=0) / total)
        tl.store(out + (cell * 5 + 4) * n + t, tl.sum(square, axis=0) / total)
        tl.debug_barrier()
        if t > 0:
            first = tl.load(ranges + (cell * n + t - 1) * 2)
            last = tl.load(ranges + (cell * n + t - 1) * 2 + 1)
            whole = tl.zeros([LANES], tl.float64)
            still = tl.zeros([LANES], tl.float64)
            count = tl.zeros([LANES], tl.float64)
            counts = tl.zeros([LANES], tl.float64)
            largest = tl.zeros([LANES], tl.float64)
            for start in range(first, last + 1, LANES):
                k = start + lane
                inside = k <= last
                mass = tl.load(weights + (cell * n + t - 1) * K + k, mask=inside, other=0.0)
                mass = mass.to(tl.float64)
                inside = inside & (mass > 0)
                sum_all = tl.zeros([LANES], tl.float64)
                for j in range(J):
                    row = (cell * J + j) * K
                    i = tl.load(target + row + k, mask=inside, other=0)
                    up = tl.load(share + row + k, mask=inside, other=0.0)
                    here = inside & (i >= low) & (i <= high)
                    above = inside & (i + 1 >= low) & (i + 1 <= high)
                    value = tl.load(ahead + i, mask=here, other=0.0) * (1 - up)
                    value += tl.load(ahead + i + 1, mask=above, other=0.0) * up
                    value *= tl.load(weight + cell * J + j)
                    size = tl.load(number + j)
                    sum_all += value
                    still += mass * tl.where(size == 0, value, 0.0)
                    count += mass * value * size
                    counts += mass * value * size * size
                whole += mass * sum_all
                largest = tl.maximum(largest, sum_all)
                tl.store(later + k, sum_all, mask=k <= last)
            total = tl.sum(whole, axis=0)
            scale = 1 / tl.max(largest, axis=0)
            place = out + cell * 5 * n + t
            tl.store(place, tl.sum(count, axis=0) / total)
            tl.store(place + n, tl.sum(counts, axis=0) / total)
            tl.store(place + 2 * n, 1 - tl.sum(still, axis=0) / total)
        tl.debug_barrier()
