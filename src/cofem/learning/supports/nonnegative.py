"""The chain over which coordinates are non-zero if none may be negative, compiled.

The slabs are half-normal, and given the set S of non-zeros their values z_S have the law of
:mod:`cofem.learning.supports.chain` cut off at zero. What is cut off has no closed form for more
than two coordinates. So values and noise belong to the state here, and every move draws new values
of all coordinates one after the other, each from its exact conditional cut off at zero, beginning
with the one that moves (the scheme of Geweke, Hajivassiliou and Keane). The product of what each
would have had above zero corrects for this in the probability with which the move is accepted:

    W = Π_i 2 P(z_i > 0 | those drawn before it).

The place of the one that moves is proposed with P(z_j > 0) counted in, so that its factor cancels.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.sites.truncated_normal import standard_moments
from cofem.learning.supports.chain import PROPOSALS, draw_weights
from cofem.learning.supports.gains import (
    ROUNDING,
    gains,
    log_twice_normal,
    look,
    pick,
    precision_of,
    score,
)
from cofem.solvers.compiled import compiled

Matrix = np.ndarray
Generator = np.random.Generator


@compiled
def run_nonnegative_chain(
    phi: np.ndarray,
    y: np.ndarray,
    scales: np.ndarray,
    pseudo_count: float,
    start: np.ndarray,
    start_slabs: np.ndarray,
    start_values: np.ndarray,
    start_beta: float,
    beta: float,
    largest: int,
    heating: np.ndarray,
    draws_from: int,
    random: np.random.Generator,
) -> tuple[np.ndarray | float, ...]:
    """Run the chain; as :func:`cofem.learning.supports.chain.run_chain`.

    Its state has two more parts: the values, drawn anew where there are none, and the noise
    precision, which stays where ``beta`` is given.
    """
    d, n = phi.shape
    kept, most = len(heating) - draws_from, min(n - 1, d, largest)
    places, slabs, values = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(most)
    free, gram, k = np.ones(d, np.bool_), np.empty((most, d)), 0
    for i in range(min(len(start), most)):
        places[i], slabs[i], free[start[i]], k = start[i], start_slabs[i], False, i + 1
        gram[i] = phi @ phi[start[i]]
    now = beta if beta > 0 else start_beta
    correlation, power, squares = phi @ y, y @ y, np.sum(phi * phi, axis=1)
    if len(start_values) == k:
        values[:k] = start_values
    else:
        _values(gram, correlation, scales, places, slabs, k, now, values, True, random)
    s, t, logs = np.empty(d), np.empty(d), np.empty((d, len(scales)))
    log_odds, means = np.zeros(len(scales)), np.zeros(len(scales))
    sizes, noise, scores = np.empty(kept, np.int64), np.empty(kept), np.empty(kept)
    drawn_places, drawn_values = np.zeros((kept, most), np.int64), np.zeros((kept, most))
    sums = np.zeros((3, d))
    for sweep in range(len(heating)):
        heat = heating[sweep]
        draw_weights(slabs, k, d, pseudo_count, log_odds, random)
        for place in places[:k].copy():
            _to_the_end(places, slabs, values, gram, k, place)
            before, _ = _values(
                gram, correlation, scales, places, slabs, k, now, values, False, random
            )
            look(gram, squares, correlation, power, scales, places, slabs, k - 1, s, t)
            free[place] = True
            total, top = gains(scales, log_odds, means, s, t, 1.0, free, now, n, heat, logs, True)
            j, a = pick(logs, top, total, random)
            old, old_slab, row = values[:k].copy(), slabs[k - 1], gram[k - 1].copy()
            if j != place:
                gram[k - 1] = phi @ phi[j]
            places[k - 1], slabs[k - 1] = j, a
            after, _ = _values(
                gram, correlation, scales, places, slabs, k, now, values, True, random
            )
            if math.log(random.random()) >= after - before:
                places[k - 1], slabs[k - 1], gram[k - 1], j = place, old_slab, row, place
                values[:k] = old
            free[j] = False
        k = _join_or_leave(
            phi, squares, correlation, power, scales, places, slabs, values, free, gram, k, now,
            log_odds, heat, s, t, logs, random,
        )  # fmt: skip
        counts = sweep >= draws_from
        energy = _refresh(
            gram, correlation, power, scales, places, slabs, k, now, values, sums, counts, random
        )
        if beta == 0:
            now = random.gamma(0.5 * (n + k), 1.0) / (0.5 * energy)
        if counts:
            row_at = sweep - draws_from
            sizes[row_at], noise[row_at] = k, 1 / now
            drawn_places[row_at, :k], drawn_values[row_at, :k] = places[:k], values[:k]
            q = look(gram, squares, correlation, power, scales, places, slabs, k, s, t)
            rest, last = _values(
                gram, correlation, scales, places, slabs, k, now, values, False, random
            )
            found = score(gram, scales, places, slabs, k, log_odds, q, now, n)
            scores[row_at] = found + rest + last + 0.5 * n * math.log(now)
    return (
        sizes, drawn_places, drawn_values, noise, scores, sums[0] / kept, sums[1] / kept,
        sums[2] / kept, places[:k].copy(), slabs[:k].copy(), values[:k].copy(), now,
    )  # fmt: skip


@compiled
def _join_or_leave(
    phi: Matrix,
    squares: Matrix,
    correlation: Matrix,
    power: float,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    values: Matrix,
    free: Matrix,
    gram: Matrix,
    k: int,
    beta: float,
    log_odds: Matrix,
    heat: float,
    s: Matrix,
    t: Matrix,
    logs: Matrix,
    random: Generator,
) -> int:
    """Propose that coordinates join or leave; return how many there are then."""
    n, most, known = phi.shape[1], len(places), False
    total, top, means = 0.0, 0.0, np.zeros(len(scales))
    # Of the state itself: known while proposals are refused. The others are of it without one.
    own_s, own_t, own_logs = np.empty(len(s)), np.empty(len(t)), np.empty(logs.shape)
    for _ in range(PROPOSALS):
        luck, old = math.log(random.random()), values[:k].copy()
        if random.random() < 0.5:
            if k >= most:
                continue
            if not known:
                look(gram, squares, correlation, power, scales, places, slabs, k, own_s, own_t)
                total, top = gains(
                    scales, log_odds, means, own_s, own_t, 1.0, free, beta, n, heat, own_logs, True
                )
                known = True
            rest, last = _values(
                gram, correlation, scales, places, slabs, k, beta, values, False, random
            )
            luck -= math.log(total) + top - math.log(k + 1) - rest - last
            if luck >= k * math.log(2):  # the new values have W of at most 2^k
                continue
            j, a = pick(own_logs, top, total, random)
            places[k], slabs[k], gram[k] = j, a, phi @ phi[j]
            after, _ = _values(
                gram, correlation, scales, places, slabs, k + 1, beta, values, True, random
            )
            if luck < after:
                free[j], known, k = False, False, k + 1
            else:
                values[:k] = old
        elif k > 0:
            j = places[int(random.random() * k)]
            _to_the_end(places, slabs, values, gram, k, j)
            old = values[:k].copy()
            before, _ = _values(
                gram, correlation, scales, places, slabs, k, beta, values, False, random
            )
            free[j] = True
            look(gram, squares, correlation, power, scales, places, slabs, k - 1, s, t)
            left, best = gains(scales, log_odds, means, s, t, 1.0, free, beta, n, heat, logs, True)
            rest, last = _values(
                gram, correlation, scales, places, slabs, k - 1, beta, values, True, random
            )
            if luck < math.log(k) - math.log(left) - best + rest + last - before:
                k, known = k - 1, False
            else:
                free[j], values[:k] = False, old
    return k


@compiled
def _to_the_end(
    places: Matrix, slabs: Matrix, values: Matrix, gram: Matrix, k: int, place: int
) -> None:
    """Exchange a coordinate on the list with the last."""
    for i in range(k - 1):
        if places[i] == place:
            row = gram[i].copy()
            gram[i], gram[k - 1] = gram[k - 1], row
            places[i], places[k - 1] = places[k - 1], place
            slabs[i], slabs[k - 1] = slabs[k - 1], slabs[i]
            values[i], values[k - 1] = values[k - 1], values[i]
            break


@compiled
def _values(
    gram: Matrix, correlation: Matrix, scales: Matrix, places: Matrix, slabs: Matrix, k: int,
    beta: float, values: Matrix, draw: bool, random: Generator,
) -> tuple[float, float]:  # fmt: skip
    """Draw values above zero if asked to; return log W without the first to be drawn, and its.

    The first to be drawn is the last on the list. With L Lᵀ = Φ_SᵀΦ_S + diag(1/v) the i-th is
    normal given those behind it, with spread 1/(√β L_ii).
    """
    if k == 0:
        return 0.0, 0.0
    factor = np.linalg.cholesky(precision_of(gram, scales, places, slabs, k))
    mean = np.empty(k)
    for i in range(k):
        mean[i] = correlation[places[i]]
        for m in range(i):
            mean[i] -= factor[i, m] * mean[m]
        mean[i] /= factor[i, i]
    rest = last = 0.0
    for i in range(k - 1, -1, -1):
        # mean holds L⁻¹Φ_Sᵀy: the i-th row of Lᵀz = that + noise.
        centre = mean[i]
        for m in range(i + 1, k):
            centre -= factor[m, i] * values[m]
        ratio = centre * math.sqrt(beta)
        if draw:
            values[i] = _above_zero(ratio, random) / (math.sqrt(beta) * factor[i, i])
        if i == k - 1:
            last = log_twice_normal(ratio)
        else:
            rest += log_twice_normal(ratio)
    return rest, last


@compiled
def _refresh(
    gram: Matrix,
    correlation: Matrix,
    power: float,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    beta: float,
    values: Matrix,
    sums: Matrix,
    counts: bool,
    random: Generator,
) -> float:
    """Draw every value given the others, and add their moments to the sums if it counts.

    Returns ‖y − Φ_S z‖² + Σ z²/v.
    """
    precision = precision_of(gram, scales, places, slabs, k)
    for i in range(k):
        centre = correlation[places[i]] + precision[i, i] * values[i]
        for m in range(k):
            centre -= precision[i, m] * values[m]
        spread = 1 / math.sqrt(beta * precision[i, i])
        ratio = centre / precision[i, i] / spread
        values[i] = spread * _above_zero(ratio, random)
        if counts:
            _, mean, variance = standard_moments(ratio)
            sums[0, places[i]] += spread * mean
            sums[1, places[i]] += spread**2 * (variance + mean**2)
            sums[2, places[i]] += 1
    energy = power
    for i in range(k):
        energy -= 2 * correlation[places[i]] * values[i]
        for m in range(k):
            energy += precision[i, m] * values[i] * values[m]
    return max(energy, ROUNDING * power)


@compiled
def _above_zero(t: float, random: Generator) -> float:
    """Draw from N(t, 1) cut off below zero; where it is far below, by Robert's rejection."""
    if t > -0.5:
        while True:
            found = t + random.standard_normal()
            if found > 0:
                return found
    rate = 0.5 * (math.sqrt(t * t + 4) - t)
    while True:
        found = random.standard_exponential() / rate
        if math.log(random.random()) < -0.5 * (found - t - rate) ** 2:
            return found
