"""The model of jumps against plain sums over all states, and against what it was drawn from."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from cofem.calcium import deconvolve, simulate
from cofem.calcium.jumps import passes
from cofem.calcium.jumps.counting import (
    LEAST_PROBABILITY,
    Segments,
    spike_size,
    split,
    trust,
)
from cofem.calcium.jumps.fitting import binned, spread_out
from cofem.calcium.jumps.search import search
from cofem.calcium.jumps.states import (
    SIZES,
    WEIGHTS,
    Constants,
    build_states,
    response_gain,
)


def dense(states):
    """Return the options' transition matrices (J, K, K)."""
    J, K = states.target.shape
    out = np.zeros((J, K, K))
    for j, k in itertools.product(range(J), range(K)):
        out[j, k, states.target[j, k]] += states.weight[j] * (1 - states.share[j, k])
        out[j, k, states.target[j, k] + 1] += states.weight[j] * states.share[j, k]
    return out


def plain_posterior(states, y, seen):
    """Forward and backward in logarithms over all states, without rise."""
    options = dense(states)
    step = np.log(np.maximum(options.sum(axis=0), 1e-300))
    emission = np.where(
        seen[:, None], -0.5 * (y[:, None] - states.height * states.calcium) ** 2, 0.0
    )
    start = -0.1 * np.abs(np.arange(len(states.calcium)) - states.rest)
    alpha = [start - logsumexp(start)]
    for row in emission:
        alpha.append(logsumexp(alpha[-1][:, None] + step, axis=0) + row)
    beta = [np.zeros(len(states.calcium))]
    for row in emission[::-1]:
        beta.append(logsumexp(step + row + beta[-1], axis=1))
    evidence = logsumexp(alpha[-1])
    beta = beta[::-1]
    active = []
    for t, row in enumerate(emission):
        still = options[states.number == 0].sum(axis=0)
        joint = alpha[t][:, None] + np.log(np.maximum(still, 1e-300)) + row + beta[t + 1]
        active.append(1 - np.exp(logsumexp(joint) - evidence))
    calcium = [np.exp(a + b - evidence) @ states.calcium for a, b in zip(alpha, beta, strict=True)]
    return evidence, np.array(active), np.array(calcium[1:])


@pytest.mark.parametrize("curvature", [0.0, 0.3, -0.3])
def test_without_rise_it_is_the_plain_sum_over_states(curvature):
    states = build_states(Constants(0.4, 0.0, curvature, 2.0, 0.6, 0.0), 30.0)
    rng = np.random.default_rng(0)
    y = rng.standard_normal(40)
    y[10:] += 6 * np.exp(-np.arange(30) / 12)
    y[18:] += 9 * np.exp(-np.arange(22) / 12)
    seen = np.ones(40, bool)
    seen[25:28] = False
    evidence, active, calcium = plain_posterior(states, y, seen)
    found = passes.posterior(states, y, seen)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-3)
    assert passes.log_evidence(states, y, seen) == pytest.approx(found.log_evidence)
    # The first frame's jump is not told from where calcium started.
    np.testing.assert_allclose(found.active[1:], active[1:], atol=1e-3)
    np.testing.assert_allclose(found.calcium, calcium, atol=5e-3)


def test_with_rise_it_is_near_the_sum_over_all_paths():
    """Every option of every frame from rest, 7 frames: the mixture of moments is nearly exact."""
    constants = Constants(0.4, 0.06, 0.0, 2.0, 0.0, 0.0)
    states = build_states(constants, 30.0)
    y = np.array([0.3, -0.5, 0.2, 2.9, 4.4, 4.6, 3.9])
    decay = np.exp(-1 / (0.4 * 30))
    sizes = np.concatenate([[0.0], np.array([0.5, 0.75, 1.0, 1.5, 2.2, 3.2, 4.7])])
    paths = np.array(list(itertools.product(range(8), repeat=5)))
    # No jump in the first two frames; the start is the same mixture over states.
    start = np.exp(-0.1 * np.abs(np.arange(len(states.calcium)) - states.rest))
    start /= start.sum()
    total = []
    for c0, p0 in zip(states.calcium, start, strict=True):
        if p0 < 1e-4:
            continue
        c, f = np.full(len(paths), c0), np.full(len(paths), c0)
        log_p = np.full(len(paths), np.log(p0))
        for t, value in enumerate(y):
            option = paths[:, t - 2] if t >= 2 else np.zeros(len(paths), int)
            log_p += np.log(states.weight[option])
            c = decay * c + sizes[option]
            f = states.rise * f + (1 - states.rise) * c
            log_p += -0.5 * (value - 4 * f) ** 2
        total.append(logsumexp(log_p))
    exact = logsumexp(total)
    found = passes.log_evidence(states, y, np.ones(7, bool))
    # The reference leaves out jumps in the first two frames, which are improbable, and has no
    # grid: they agree within a twentieth of a decade.
    assert found == pytest.approx(exact, abs=0.15)


@pytest.mark.parametrize(("tau_d", "tau_r"), [(0.3, 0.01), (0.6, 0.1), (1.5, 0.1)])
def test_constants_are_found_from_the_trace(tau_d, tau_r):
    """Within a step or two of what the trace was drawn with; linear, little noise."""
    dff, _ = simulate(
        1, 4500, 30.0, tau_d=tau_d, tau_r=tau_r, hill=1.0, noise_std=0.03, drift=1e-9, seed=3
    )
    found = search(dff[0] / 0.03, np.ones(4500, bool), 30.0, {}).constants
    assert 1 / 1.6 < found.tau_d / tau_d < 1.6
    if tau_r >= 0.05:
        assert 1 / 2.1 < found.tau_r / tau_r < 2.1
    else:
        assert found.tau_r < 0.045


def test_a_given_response_is_kept():
    dff, _ = simulate(2, 900, 30.0, seed=2)
    linear = deconvolve(dff, 30.0, response="linear", n_jobs=1)
    np.testing.assert_array_equal(linear.curvature, 0.0)
    log = deconvolve(dff, 30.0, response="log", n_jobs=1)
    np.testing.assert_allclose(log.curvature, 1.0)  # a jump grows with 1 + dF/F


@pytest.mark.parametrize("rate", [60.0, 120.0, 240.0])
def test_the_frame_rate_does_not_matter(rate):
    """The same cells at a higher rate: decay times and spikes per second are the same."""
    low, _ = simulate(3, 3600, 30.0, noise_std=0.05, seed=5)
    factor = round(rate / 30)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((3, 3600, factor)) * 0.05 * np.sqrt(factor)
    noise -= noise.mean(axis=2, keepdims=True)  # the mean of a group of frames is that of low
    high = (low[:, :, None] + noise).reshape(3, -1)
    one, other = deconvolve(low, 30.0, n_jobs=1), deconvolve(high, rate, n_jobs=1)
    np.testing.assert_allclose(other.tau_d, one.tau_d, rtol=0.5)
    total = one.spikes.sum(axis=1)
    np.testing.assert_allclose(other.spikes.sum(axis=1), total, rtol=0.1)


def test_an_active_cell_is_not_silenced():
    """A cell that is hardly ever at rest: its level of silence is below the median.

    With the level at the median such a cell yielded nothing; its seconds now correlate with
    the true ones by more than 0.7, though bouts are partly taken for a curved response.
    """
    dff, spikes = simulate(4, 5400, 30.0, rate=6.0, tau_d=1.0, hill=1.0, drift=1e-9, seed=7)
    found = deconvolve(dff, 30.0, n_jobs=1)
    assert np.all(np.median(found.baseline, axis=1) < np.median(dff, axis=1) - 0.1)
    for i in range(4):
        a, b = (x.reshape(-1, 30).sum(axis=1) for x in (found.spikes[i], spikes[i]))
        assert np.corrcoef(a, b)[0, 1] > 0.7


@pytest.mark.filterwarnings("ignore:cells with problems")  # rightly
def test_slow_frames_of_noise_have_next_to_no_events():
    noise = 0.05 * np.random.default_rng(0).standard_normal((6, 1500))
    found = deconvolve(noise, 8.0, n_jobs=1)
    assert len(found.events()) < 12
    assert np.all(found.tau_d >= 1.5 / 8)


def test_long_recordings_are_pieced_together(monkeypatch):
    from cofem.calcium.jumps import fitting

    dff, _ = simulate(1, 3000, 30.0, seed=1)
    whole = deconvolve(dff[0], 30.0)
    monkeypatch.setattr(fitting, "STRETCH", 700)
    constants = {"tau_d": whole.tau_d, "tau_r": whole.tau_r, "response": "linear"}
    pieces = deconvolve(dff[0], 30.0, **constants)
    monkeypatch.undo()
    assert pieces.spikes.shape == whole.spikes.shape
    joined = passes.posterior(
        build_states(Constants(0.7, 0.04, 0.0, 1.0, 0.5, 0.0), 30.0),
        dff[0] / 0.05, np.ones(3000, bool),
    )  # fmt: skip
    monkeypatch.setattr(fitting, "STRETCH", 700)
    parts = fitting._in_pieces(
        build_states(Constants(0.7, 0.04, 0.0, 1.0, 0.5, 0.0), 30.0),
        dff[0] / 0.05, np.ones(3000, bool), 300,
    )  # fmt: skip
    np.testing.assert_allclose(parts.number, joined.number, atol=1e-3)


def test_naming_the_indicator_moves_little():
    """A wrong name is a prior against much evidence."""
    dff, spikes = simulate(3, 4500, 30.0, tau_d=0.3, tau_r=0.01, noise_std=0.03, seed=4)
    scores = []
    for name in (None, "jGCaMP8f", "GCaMP6s"):
        found = deconvolve(dff, 30.0, indicator=name, n_jobs=1)
        scores.append([
            np.corrcoef(*(x.reshape(-1, 6).sum(axis=1) for x in pair))[0, 1]
            for pair in zip(found.spikes, spikes, strict=True)
        ])  # fmt: skip
    assert np.min(np.mean(scores, axis=1)) > np.mean(scores[0]) - 0.03


# -- counting, bins ------------------------------------------------------------------------


def test_events_have_the_probability_of_their_number():
    """Sure, single jumps are one event; a high segment lists its spikes, evenly over its height.

    The number is drawn here from what the law says of it: log-normal with mean ν.
    """
    active, height = np.zeros(300), np.zeros(300)
    active[[50, 100]], height[[50, 100]] = (1.0, 0.3), (8.0, 2.4)
    active[200:203], height[200:203] = (0.2, 0.6, 0.2), (8.0, 24.0, 8.0)
    sure = trust(np.array([8.0, 40.0]), jump=4.0)
    real = np.where(np.arange(300) < 150, *sure)
    frame, chance, segment = split(active, height, real, 8.0, 30.0)
    single, faint, burst = (segment[:, 0] == start for start in (50, 100, 200))
    np.testing.assert_allclose(frame[single | faint], np.where(single, 50, 100)[single | faint])
    assert chance[single][0] == pytest.approx(sure[0])
    assert chance[faint][0] == pytest.approx(0.3 * sure[0])
    rng = np.random.default_rng(0)
    drawn = 5.0 * np.exp(0.7 * rng.standard_normal(200_000) - 0.7**2 / 2)  # mean 5
    number = np.maximum(np.round(drawn), 1)
    expected = [np.mean(number >= k) for k in np.arange(1, burst.sum() + 1)]
    np.testing.assert_allclose(chance[burst], sure[1] * np.array(expected), atol=0.005)
    assert chance.min() >= LEAST_PROBABILITY
    likely = np.sort(frame[burst][chance[burst] >= 0.5])
    assert len(likely) == 4
    assert np.all((likely > 199) & (likely < 203))
    assert split(np.zeros(9), np.zeros(9), np.ones(9), 1.0, 30.0)[0].shape == (0,)


def test_the_size_of_a_spike_is_the_first_tooth_where_events_are_alike():
    rng = np.random.default_rng(1)

    def made(heights):
        at = np.arange(len(heights))
        return Segments(at, at + 1, np.ones(len(heights)), heights)

    single = 9.0 * np.exp(0.15 * rng.standard_normal(60))
    some = made(np.where(rng.random(60) < 0.3, 2 * single, single))
    assert spike_size(1.0, 0.7, some) == pytest.approx(9.0, rel=0.15)
    # Heights that differ widely say nothing of the kind, and neither do those near the floor.
    wide = made(9.0 * np.exp(0.8 * rng.standard_normal(60)))
    assert spike_size(1.0, 0.7, wide) < 4
    assert spike_size(1.0, 0.7, made(single / 3)) < 3


def test_bins_keep_sums_and_gaps():
    trace = np.arange(1000.0)
    trace[40:48] = np.nan
    found = binned(trace, 120.0)
    assert found.factor == 4
    assert np.isnan(found.trace[10:12]).all()
    assert found.trace[0] == 1.5
    x = np.zeros(250)
    x[100] = 2.0
    out = spread_out(x, 4, 1000)
    assert out.sum() == pytest.approx(2.0)
    # A jump first seen in bin 100 lies between the middles of bins 99 and 100.
    assert out @ np.arange(1000) / 2 == pytest.approx((99 * 4 + 1.5 + 100 * 4 + 1.5) / 2)


def test_more_calcium_never_ends_below_less():
    """Both recursions count on targets that do not fall, also where the response saturates."""
    for curvature in (-0.3, -0.1, 0.3):
        states = build_states(Constants(0.4, 0.0, curvature, 2.0, 0.6, 0.0), 30.0)
        goal = states.target + states.share
        assert np.all(np.diff(goal, axis=1) >= 0)


@pytest.mark.parametrize("bend", [-0.3, 0.0, 0.3])
def test_the_evidence_tells_the_curve_where_all_else_is_known(bend):
    """Traces drawn from the model, of cells that fire densely; five of six at least."""
    rng, chances = np.random.default_rng(20), WEIGHTS / WEIGHTS.sum()
    right = 0
    for _ in range(6):
        calcium, trace = 0.0, np.empty(900)
        for t in range(900):
            calcium *= np.exp(-1 / 30.0)
            size = rng.choice(SIZES, p=chances) if rng.random() < 0.1 else 0.0
            calcium += size * response_gain(bend, calcium, size, np)
            trace[t] = 4.0 * calcium + rng.standard_normal()
        evidence = {
            curvature: passes.log_evidence(
                build_states(Constants(1.0, 0.0, curvature, 3.0, 0.0, 0.0), 30.0),
                trace, np.ones(900, bool),
            )
            for curvature in (-0.3, 0.0, 0.3)
        }  # fmt: skip
        right += max(evidence, key=lambda at: evidence[at]) == bend
    assert right >= 5
