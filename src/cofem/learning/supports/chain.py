"""A Markov chain over which coordinates are non-zero, compiled.

Given the set S of the non-zero coordinates and their slab variances v (relative to the noise,
columns of length one), y is normal with covariance σ² C, C = I + Σ_{j ∈ S} v_j φ_j φ_jᵀ. What a
move needs to know of any column is

    s_j = φ_jᵀ C⁻¹ φ_j,    t_j = φ_jᵀ C⁻¹ y,    q = yᵀ C⁻¹ y,

and the columns of the Gram matrix ΦᵀΦ at S give it for all columns at once, by the Cholesky factor
of Φ_SᵀΦ_S + diag(1/v). A coordinate with slab variance v joins with the log evidence

    −½ log(1 + v s_j) − ½ N log(q′/q),    q′ = q − v t_j² / (1 + v s_j),

with σ² integrated out under its scale-free prior; −½ log(1 + v s_j) − ½ β (q′ − q) where the noise
precision β is given. Three kinds of moves leave the posterior as it is:

- a non-zero coordinate is taken out, and its place and slab are drawn anew among all that are
  free, each with its exact conditional probability: so effects change places between coherent
  columns, for which flipping one coordinate at a time would take forever;
- one joins, proposed with these same probabilities, or leaves (Metropolis–Hastings);
- the weights of the slabs are drawn given how many coordinates each holds; two of the slabs hold
  values of equal magnitude (:mod:`cofem.learning.supports.equal`), which is drawn too.

Moving an effect among all columns by its exact conditional is the idea of the sum of single
effects (Wang et al., J. R. Stat. Soc. B 2020); proposals that know the gain are those of Zanella
(J. Am. Stat. Assoc. 2020).
"""

from __future__ import annotations

import math

import numpy as np

from cofem.learning.supports.equal import draw_equal, draw_share, log_prior, see, shift_of
from cofem.learning.supports.gains import TINY, gains, pick, precision_of, score
from cofem.solvers.compiled import compiled

Matrix = np.ndarray
Generator = np.random.Generator

# How often in every sweep it is proposed that a coordinate joins or leaves. A number that depends
# on the size of the set would make the chain favour some sizes.
PROPOSALS = 8


@compiled
def run_chain(
    phi: np.ndarray,
    y: np.ndarray,
    scales: np.ndarray,
    pseudo_count: float,
    spreads: np.ndarray,
    reach: float,
    start: np.ndarray,
    start_slabs: np.ndarray,
    equal: np.ndarray,
    beta: float,
    largest: int,
    heating: np.ndarray,
    draws_from: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Run the chain; return its draws, and sums over the sweeps that count.

    Parameters
    ----------
    phi : array (D, N)
        The columns of Φ, of length one, as rows.
    y : array (N,)
    scales : array (K,)
        Slab variances over the noise variance.
    pseudo_count : float
        Of every slab, in the prior of the weights; the spike has one.
    spreads : array
        Variances over the noise variance that values of equal magnitude may have about it; none,
        if there is no such law.
    reach : float
        The largest magnitude of that law.
    start, start_slabs : integer arrays
        The non-zero coordinates and their slabs in the beginning.
    equal : array (2,)
        The common magnitude and its spread in the beginning.
    beta : float
        The noise precision; zero if it is not known.
    largest : int
        The most coordinates that are non-zero at a time.
    heating : array (sweeps,)
        The power to which the evidence counts in every sweep; one from ``draws_from`` on.
    draws_from : int
        The first sweep that counts.
    random : Generator

    Returns
    -------
    sizes : array (kept,)
        How many coordinates are non-zero, in every draw.
    places, values : arrays (kept, N)
        Which, and their values; the first ``sizes`` of a row count.
    noise : array (kept,)
        The noise variance of every draw.
    scores : array (kept,)
        The log posterior density of the set and its slabs, weights integrated out, up to a
        constant.
    first, second, inside : arrays (D,)
        Averages of the conditional means and second moments and of being non-zero.
    places, slabs : integer arrays
        Where the chain ended: ``start`` and ``start_slabs`` for it to go on.
    equal : array (2,)
        The common magnitude and its spread there.
    """
    d, n = phi.shape
    # The last two slabs are those about plus and minus the common magnitude.
    scales, means = np.append(scales, np.full(2, equal[1])), np.zeros(len(scales) + 2)
    means[-2], means[-1], width = equal[0], -equal[0], 0.0
    kept, degrees = len(heating) - draws_from, float(n)
    most = min(n - 1, d, largest)
    places, slabs = np.full(most, -1, np.int64), np.empty(most, np.int64)
    free = np.ones(d, np.bool_)
    gram = np.empty((most, d))
    k = 0
    for i in range(min(len(start), most)):
        k = _join(phi, places, slabs, free, gram, k, start[i], start_slabs[i])
    correlation, power_of_y = phi @ y, y @ y
    squares = np.sum(phi * phi, axis=1)  # one, or zero for a column of zeros
    s, t = np.empty(d), np.empty(d)
    log_odds, logs = np.zeros(len(scales)), np.empty((d, len(scales)))
    no_odds = np.zeros(len(scales))
    s_left, t_left, logs_left = np.empty(d), np.empty(d), np.empty((d, len(scales)))
    sizes, noise, scores = np.empty(kept, np.int64), np.empty(kept), np.empty(kept)
    drawn_places, drawn_values = np.zeros((kept, most), np.int64), np.zeros((kept, most))
    first, second, inside = np.zeros(d), np.zeros(d), np.zeros(d)
    for sweep in range(len(heating)):
        heat = heating[sweep]
        spike = draw_weights(slabs, k, d, pseudo_count, log_odds[:-2], random)
        draw_share(slabs, k, len(spreads) > 0, spike, log_odds, random)
        for place in places[:k].copy():
            k = _leave(places, slabs, free, gram, k, place)
            q = see(gram, squares, correlation, power_of_y, means, scales, places, slabs, k, s, t)
            total, top = gains(scales, log_odds, means, s, t, q, free, beta, degrees, heat, logs)
            j, a = pick(logs, top, total, random)
            k = _join(phi, places, slabs, free, gram, k, j, a)
        q = see(gram, squares, correlation, power_of_y, means, scales, places, slabs, k, s, t)
        total, top = gains(scales, log_odds, means, s, t, q, free, beta, degrees, heat, logs)
        for _ in range(PROPOSALS):
            if random.random() < 0.5:
                # The odds of all that may join, over the ways back.
                if k >= most:
                    continue
                if math.log(random.random()) >= math.log(total) + top - math.log(k + 1):
                    continue
                j, a = pick(logs, top, total, random)
                k = _join(phi, places, slabs, free, gram, k, j, a)
                q = see(
                    gram, squares, correlation, power_of_y, means, scales, places, slabs, k, s, t
                )
                total, top = gains(
                    scales, log_odds, means, s, t, q, free, beta, degrees, heat, logs
                )
            elif k > 0:
                i = int(random.random() * k)
                j, a = places[i], slabs[i]
                k = _leave(places, slabs, free, gram, k, j)
                q_left = see(
                    gram, squares, correlation, power_of_y, means, scales, places, slabs, k,
                    s_left, t_left,
                )  # fmt: skip
                total_left, top_left = gains(
                    scales, log_odds, means, s_left, t_left, q_left, free, beta, degrees, heat,
                    logs_left,
                )  # fmt: skip
                if math.log(random.random()) < math.log(k + 1) - math.log(total_left) - top_left:
                    # What was seen without it is now what there is to see.
                    s, s_left, t, t_left, logs, logs_left = s_left, s, t_left, t, logs_left, logs
                    q, total, top = q_left, total_left, top_left
                else:
                    k = _join(phi, places, slabs, free, gram, k, j, a)
        if len(spreads):
            width = draw_equal(
                gram, correlation, power_of_y, spreads, reach, places, slabs, k, beta, degrees,
                heat, means, scales, random,
            )  # fmt: skip
            q = see(gram, squares, correlation, power_of_y, means, scales, places, slabs, k, s, t)
        if sweep >= draws_from:
            row = sweep - draws_from
            sizes[row] = k
            drawn_places[row, :k] = places[:k]
            scores[row] = width + log_prior(slabs, k, d, pseudo_count, len(scales))
            scores[row] += score(gram, scales, places, slabs, k, no_odds, q, beta, degrees)
            noise[row] = _draw_values(
                gram, correlation, means, scales, places, slabs, k, q, beta, degrees,
                drawn_values[row], first, second, inside, random,
            )  # fmt: skip
    return (
        sizes, drawn_places, drawn_values, noise, scores, first / kept, second / kept,
        inside / kept, places[:k].copy(), slabs[:k].copy(), np.array([means[-2], scales[-2]]),
    )  # fmt: skip


@compiled
def draw_weights(
    slabs: Matrix, k: int, d: int, pseudo_count: float, log_odds: Matrix, random: Generator
) -> float:
    """Draw the weights of the slabs over that of the spike, as logarithms; return the spike's."""
    spike = float(random.gamma(d - k + 1.0, 1.0))
    for a in range(len(log_odds)):
        held = pseudo_count
        for i in range(k):
            held += slabs[i] == a
        log_odds[a] = math.log(max(random.gamma(held, 1.0), TINY) / spike)
    return spike


@compiled
def _join(
    phi: Matrix, places: Matrix, slabs: Matrix, free: Matrix, gram: Matrix, k: int, j: int, a: int
) -> int:
    """Put coordinate j with slab a on the list; return how many there are.

    Row k of ``gram`` belongs to ``places[k]`` also behind the end: often the one that has just left
    comes back.
    """
    if places[k] != j:
        gram[k] = phi @ phi[j]
    places[k], slabs[k], free[j] = j, a, False
    return k + 1


@compiled
def _leave(places: Matrix, slabs: Matrix, free: Matrix, gram: Matrix, k: int, place: int) -> int:
    """Take a coordinate off the list, to behind its end; return how many are left."""
    for i in range(k):
        if places[i] == place:
            free[place] = True
            places[i], slabs[i], places[k - 1] = places[k - 1], slabs[k - 1], place
            row = gram[i].copy()
            gram[i] = gram[k - 1]
            gram[k - 1] = row
            break
    return k - 1


@compiled
def _draw_values(
    gram: Matrix,
    correlation: Matrix,
    means: Matrix,
    scales: Matrix,
    places: Matrix,
    slabs: Matrix,
    k: int,
    q: float,
    beta: float,
    degrees: float,
    values: Matrix,
    first: Matrix,
    second: Matrix,
    inside: Matrix,
    random: Generator,
) -> float:
    """Draw the noise variance and the values, and add the conditional moments to the sums."""
    drawn = 1 / beta if beta > 0 else q / (2 * random.gamma(degrees / 2, 1.0))
    if k == 0:
        return drawn
    expected = 1 / beta if beta > 0 else q / max(degrees - 2, 1.0)
    precision = precision_of(gram, scales, places, slabs, k)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (correlation - shift_of(gram, means, slabs, k))[places[:k]]
    for i in range(k):
        mean[i] += means[slabs[i]]
    # x = μ + σ L⁻ᵀ e has the covariance σ² (L Lᵀ)⁻¹.
    normal = np.empty(k)
    for i in range(k):
        normal[i] = random.standard_normal()
    factor = np.linalg.cholesky(precision)
    values[:k] = mean + math.sqrt(drawn) * np.linalg.solve(np.ascontiguousarray(factor.T), normal)
    for i in range(k):
        j = places[i]
        if gram[i, j] > 0:  # of a column of zeros either sign is as probable: zero on average
            first[j] += mean[i]
        second[j] += mean[i] ** 2 + expected * covariance[i, i]
        inside[j] += 1
    return drawn
