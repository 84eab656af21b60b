"""The chain over which coordinates are non-zero if none may be negative, compiled.

The slabs are normal laws cut off at zero: half-normal, and one about a magnitude that values of
equal magnitude have in common (:mod:`cofem.learning.supports.equal`). Given the set S of non-zeros
their values z_S have the law of :mod:`cofem.learning.supports.chain` cut off at zero. What is cut
off has no closed form for more than two coordinates. So values and noise belong to the state here,
and every move draws new values of all coordinates one after the other, each from its exact
conditional cut off at zero, beginning with the one that moves (the scheme of Geweke, Hajivassiliou
and Keane). The product of what each would have had above zero, beside what its slab has there,
corrects for this in the probability with which the move is accepted:

    W = Π_i P(z_i > 0 | those drawn before it) / P(z_i > 0 | its slab, not cut off).

The place of the one that moves is proposed with its own factor counted in, so that this cancels.
"""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.supports.chain import PROPOSALS, draw_weights
from cofem.learning.supports.cut_values import draw_noise, draw_values, refresh_values
from cofem.learning.supports.equal import draw_equal, draw_share, see
from cofem.learning.supports.gains import gains, pick, score
from cofem.solvers.compiled import compiled

Matrix = np.ndarray
Generator = np.random.Generator


@compiled
def run_nonnegative_chain(
    phi: np.ndarray,
    y: np.ndarray,
    scales: np.ndarray,
    pseudo_count: float,
    spreads: np.ndarray,
    reach: float,
    start: np.ndarray,
    start_slabs: np.ndarray,
    equal: np.ndarray,
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
    # The last slab is that about the common magnitude.
    scales, means = np.append(scales, equal[1]), np.zeros(len(scales) + 1)
    means[-1], width = equal[0], 0.0
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
        draw_values(gram, correlation, means, scales, places, slabs, k, now, values, True, random)
    s, t, logs = np.empty(d), np.empty(d), np.empty((d, len(scales)))
    log_odds = np.zeros(len(scales))
    sizes, noise, scores = np.empty(kept, np.int64), np.empty(kept), np.empty(kept)
    drawn_places, drawn_values = np.zeros((kept, most), np.int64), np.zeros((kept, most))
    sums = np.zeros((3, d))
    for sweep in range(len(heating)):
        heat = heating[sweep]
        spike = draw_weights(slabs, k, d, pseudo_count, log_odds[:-1], random)
        draw_share(slabs, k, len(spreads) > 0, spike, log_odds, random, 1)
        for place in places[:k].copy():
            _to_the_end(places, slabs, values, gram, k, place)
            before, _ = draw_values(
                gram, correlation, means, scales, places, slabs, k, now, values, False, random
            )
            see(gram, squares, correlation, power, means, scales, places, slabs, k - 1, s, t)
            free[place] = True
            total, top = gains(scales, log_odds, means, s, t, 1.0, free, now, n, heat, logs, True)
            j, a = pick(logs, top, total, random)
            old, old_slab, row = values[:k].copy(), slabs[k - 1], gram[k - 1].copy()
            if j != place:
                gram[k - 1] = phi @ phi[j]
            places[k - 1], slabs[k - 1] = j, a
            after, _ = draw_values(
                gram, correlation, means, scales, places, slabs, k, now, values, True, random
            )
            if math.log(random.random()) >= after - before:
                places[k - 1], slabs[k - 1], gram[k - 1], j = place, old_slab, row, place
                values[:k] = old
            free[j] = False
        k = _join_or_leave(
            phi, squares, correlation, power, means, scales, places, slabs, values, free, gram, k,
            now, log_odds, heat, s, t, logs, random,
        )  # fmt: skip
        counts = sweep >= draws_from
        if len(spreads):
            width = _draw_equal(
                gram, correlation, power, spreads, reach, places, slabs, k, now, heat, means,
                scales, values, random,
            )  # fmt: skip
        energy = refresh_values(
            gram,
            correlation,
            power,
            means,
            scales,
            places,
            slabs,
            k,
            now,
            values,
            sums,
            counts,
            random,
        )
        if beta == 0:
            now = draw_noise(n, k, energy, now, means, scales, slabs, random)
        if counts:
            row_at = sweep - draws_from
            sizes[row_at], noise[row_at] = k, 1 / now
            drawn_places[row_at, :k], drawn_values[row_at, :k] = places[:k], values[:k]
            q = see(gram, squares, correlation, power, means, scales, places, slabs, k, s, t)
            rest, last = draw_values(
                gram, correlation, means, scales, places, slabs, k, now, values, False, random
            )
            found = score(gram, scales, places, slabs, k, log_odds, q, now, n)
            scores[row_at] = width + found + rest + last + 0.5 * n * math.log(now)
    return (
        sizes, drawn_places, drawn_values, noise, scores, sums[0] / kept, sums[1] / kept,
        sums[2] / kept, places[:k].copy(), slabs[:k].copy(), np.array([means[-1], scales[-1]]),
        values[:k].copy(), now,
    )  # fmt: skip


@compiled
def _join_or_leave(
    phi: Matrix,
    squares: Matrix,
    correlation: Matrix,
    power: float,
    means: Matrix,
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
    total, top = 0.0, 0.0
    # Of the state itself: known while proposals are refused. The others are of it without one.
    own_s, own_t, own_logs = np.empty(len(s)), np.empty(len(t)), np.empty(logs.shape)
    for _ in range(PROPOSALS):
        luck, old = math.log(random.random()), values[:k].copy()
        if random.random() < 0.5:
            if k >= most:
                continue
            if not known:
                see(
                    gram, squares, correlation, power, means, scales, places, slabs, k, own_s, own_t
                )
                total, top = gains(
                    scales, log_odds, means, own_s, own_t, 1.0, free, beta, n, heat, own_logs, True
                )
                known = True
            rest, last = draw_values(
                gram, correlation, means, scales, places, slabs, k, beta, values, False, random
            )
            luck -= math.log(total) + top - math.log(k + 1) - rest - last
            if luck >= k * math.log(2):  # the new values have W of at most 2^k
                continue
            j, a = pick(own_logs, top, total, random)
            places[k], slabs[k], gram[k] = j, a, phi @ phi[j]
            after, _ = draw_values(
                gram, correlation, means, scales, places, slabs, k + 1, beta, values, True, random
            )
            if luck < after:
                free[j], known, k = False, False, k + 1
            else:
                values[:k] = old
        elif k > 0:
            j = places[int(random.random() * k)]
            _to_the_end(places, slabs, values, gram, k, j)
            old = values[:k].copy()
            before, _ = draw_values(
                gram, correlation, means, scales, places, slabs, k, beta, values, False, random
            )
            free[j] = True
            see(gram, squares, correlation, power, means, scales, places, slabs, k - 1, s, t)
            left, best = gains(scales, log_odds, means, s, t, 1.0, free, beta, n, heat, logs, True)
            rest, last = draw_values(
                gram, correlation, means, scales, places, slabs, k - 1, beta, values, True, random
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
def _draw_equal(
    gram: Matrix,
    correlation: Matrix,
    power: float,
    spreads: Matrix,
    reach: float,
    places: Matrix,
    slabs: Matrix,
    k: int,
    beta: float,
    heat: float,
    means: Matrix,
    scales: Matrix,
    values: Matrix,
    random: Generator,
) -> float:
    """Propose another common magnitude and spread, and values with them."""
    magnitude, spread, old = means[-1], scales[-1], values[:k].copy()
    rest, last = draw_values(
        gram, correlation, means, scales, places, slabs, k, beta, values, False, random
    )
    width = draw_equal(
        gram, correlation, power, spreads, reach, places, slabs, k, beta, float(gram.shape[1]),
        heat, means, scales, random, 1,
    )  # fmt: skip
    before = rest + last
    rest, last = draw_values(
        gram, correlation, means, scales, places, slabs, k, beta, values, True, random
    )
    if math.log(random.random()) >= rest + last - before:
        means[-1], scales[-1], values[:k] = magnitude, spread, old
    return width
