"""The mixture's sums against quadrature: real, complex, z ≥ 0, groups, tasks."""

import contextlib
import threading

import numpy as np
import pytest
from scipy.integrate import quad

from cofem.learning.sites import shares as shares_of
from cofem.learning.sites.mixture import Seen
from cofem.learning.sites.shares import Shares
from cofem.model.model import Tie

SCALES = np.array([0.0, 0.4, 3.0, 60.0])
WEIGHTS = np.array([0.7, 0.15, 0.1, 0.05])
RATIOS = (2.5, 0.7)


def normal(x, variance):
    return np.exp(-0.5 * x**2 / variance) / np.sqrt(2 * np.pi * variance)


def integrals(value, noise, variance, cut=False):
    """∫ N(value; z, noise) N(z; 0, variance) {1, z, z²} dz; of 2 N(z; 0, variance), z > 0."""
    if variance == 0:
        return np.array([normal(value, noise), 0.0, 0.0])
    # Where the product of the two is: quadrature has to be told.
    centre = value * variance / (variance + noise)
    reach = 12 * np.sqrt(noise * variance / (noise + variance))
    low, high = centre - reach, centre + reach
    if cut:
        low, high = max(low, 0.0), max(high, reach)
    return np.array([
        (2 if cut else 1) * quad(
            lambda z, power=power: z**power * normal(value - z, noise) * normal(z, variance),
            low, high, epsabs=0, epsrel=1e-11, limit=200,
        )[0]
        for power in range(3)
    ])  # fmt: skip


def parts_of(v, precision, variance):
    """Return (value, noise, variance) of the real numbers that v stands for."""
    if np.iscomplexobj(v):
        halves = 0.5 / precision, 0.5 * variance
        return [(v.real, *halves), (v.imag, *halves)]
    return [(float(v), 1 / precision, variance)]


def by_quadrature(seen, labels, cut=False, scales=SCALES):
    """Mean and variance of every coordinate, P(zero), mean shares and evidence over the spike's."""
    members = len(labels)
    complex_ = np.iscomplexobj(seen[0].value)
    kinds = np.unique(labels)
    logs = np.zeros((len(scales), len(kinds)))
    moments = {}
    for f, s in enumerate(seen):
        for task, j in np.ndindex(s.value.shape):
            precision = RATIOS[f] * s.precision[j]
            for k, scale in enumerate(scales):
                found = [
                    integrals(*part, cut)
                    for part in parts_of(s.value[task, j], precision, scale / s.unit[j])
                ]
                logs[k, labels[j]] += sum(np.log(p[0]) for p in found)
                mean = [p[1] / p[0] for p in found]
                power = sum(p[2] / p[0] for p in found)
                moments[f, task, j, k] = mean[0] + 1j * mean[1] if complex_ else mean[0], power
    joint = logs + np.log(WEIGHTS)[:, None]
    total = np.log(np.sum(np.exp(joint - joint.max(axis=0)), axis=0)) + joint.max(axis=0)
    shares = np.exp(joint - total)
    means, variances = [], []
    for f, s in enumerate(seen):
        every = range(len(scales))
        mean = np.array([
            [sum(shares[k, labels[j]] * moments[f, t, j, k][0] for k in every)
             for j in range(members)] for t in range(len(s.value))
        ])  # fmt: skip
        power = np.array([
            [sum(shares[k, labels[j]] * moments[f, t, j, k][1] for k in every)
             for j in range(members)] for t in range(len(s.value))
        ])  # fmt: skip
        means.append(mean)
        variances.append(power - abs(mean) ** 2)
    evidence = np.sum(total - logs[0])
    return means, variances, shares[0][labels], shares[:, labels].mean(axis=1), evidence


def cases():
    random = np.random.default_rng(0)

    def seen(tasks, members, complex_=False):
        value = random.normal(size=(tasks, members)) * 10 ** random.uniform(-1, 0.7, members)
        if complex_:
            value = value * np.exp(2j * np.pi * random.random((tasks, members)))
        return Seen(value, random.uniform(0.1, 5, members), random.uniform(0.2, 3, members))

    alone = np.arange(5)
    groups = np.array([0, 1, 0, 2, 1])
    return {
        "real": ([seen(1, 5)], alone),
        "complex": ([seen(1, 5, True)], alone),
        "three tasks": ([seen(3, 5)], alone),
        "two families": ([seen(2, 5), seen(1, 5)], alone),
        "groups": ([seen(1, 5)], groups),
        "complex groups of two families": ([seen(1, 5, True), seen(2, 5, True)], groups),
    }


CASES = cases()


def library_shares(name, shares=shares_of.normal_shares, convert=lambda x: x):
    seen, labels = CASES[name]
    half = 1.0 if np.iscomplexobj(seen[0].value) else 0.5
    tie = Tie() if len(np.unique(labels)) == len(labels) else Tie(labels)
    seen = [Seen(*(convert(x) for x in (s.value, s.precision, s.unit))) for s in seen]
    return shares(seen, SCALES, np.log(WEIGHTS), RATIOS[: len(seen)], half, tie)


def assert_those_of_quadrature(found, seen, labels, cut=False):
    means, variances, spike, weights, evidence = by_quadrature(seen, labels, cut)
    np.testing.assert_allclose(found.spike, spike, rtol=1e-8)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-8)
    assert found.log_evidence == pytest.approx(evidence, rel=1e-8)
    for i in range(len(seen)):
        np.testing.assert_allclose(found.mean[i], means[i], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.variance[i], variances[i], rtol=1e-7)


@pytest.mark.parametrize(
    "shares", [shares_of.normal_shares, shares_of._array_shares], ids=["any", "array"]
)
@pytest.mark.parametrize("name", CASES)
def test_the_sums_are_those_of_quadrature(name, shares):
    assert_those_of_quadrature(library_shares(name, shares), *CASES[name])


@pytest.mark.parametrize("name", ["real", "three tasks", "two families", "groups"])
def test_half_normal_slabs_are_those_of_quadrature(name):
    found = library_shares(name, shares_of.rectified_shares)
    assert_those_of_quadrature(found, *CASES[name], cut=True)


def many(seed, size=500):
    """Coordinates of all kinds: lost in the noise, on the border, ten thousand times above."""
    random = np.random.default_rng(seed)
    value = random.normal(size=(2, size)) * 10 ** random.uniform(-3, 4, size)
    return Seen(value, 10 ** random.uniform(-3, 3, size), 10 ** random.uniform(-2, 2, size))


@pytest.mark.parametrize("seed", range(3))
def test_the_compiled_sums_are_those_of_any_array_library(seed):
    arguments = ([many(seed)], SCALES, np.log(WEIGHTS), RATIOS[:1], 0.5, Tie())
    fast, slow = shares_of.normal_shares(*arguments), shares_of._array_shares(*arguments)
    np.testing.assert_allclose(fast.mean[0], slow.mean[0], rtol=1e-9)
    np.testing.assert_allclose(fast.variance[0], slow.variance[0], rtol=1e-7)
    np.testing.assert_allclose(fast.spike, slow.spike, rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-9)
    assert fast.log_evidence == pytest.approx(slow.log_evidence, rel=1e-11)


@pytest.mark.parametrize("tie", [Tie(), Tie(np.arange(60) % 20)], ids=["alone", "groups"])
def test_blocks_of_coordinates_say_what_all_do_at_once(tie, monkeypatch):
    arguments = ([many(0, 60)], SCALES, np.log(WEIGHTS), RATIOS[:1], 0.5, tie)
    whole = shares_of._array_shares(*arguments)
    monkeypatch.setattr(shares_of, "AT_ONCE", 7 * len(SCALES))
    found = shares_of._array_shares(*arguments)
    np.testing.assert_allclose(found.mean[0], whole.mean[0], rtol=1e-12)
    np.testing.assert_allclose(found.variance[0], whole.variance[0], rtol=1e-12)
    np.testing.assert_allclose(found.spike, whole.spike, rtol=1e-12)
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-12)
    assert found.log_evidence == pytest.approx(whole.log_evidence, rel=1e-12)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["real", "groups", "two families"])
def test_single_precision_is_the_same_to_single_precision(name, kind):
    convert = np.float32
    if kind == "torch":
        torch = pytest.importorskip("torch")

        def convert(x):
            return torch.from_numpy(x.astype(np.float32))

    exact, single = library_shares(name), library_shares(name, convert=convert)
    smallest = np.finfo(np.float32).tiny
    np.testing.assert_allclose(np.asarray(single.spike), exact.spike, rtol=2e-5, atol=smallest)
    np.testing.assert_allclose(single.weights, exact.weights, rtol=2e-5)
    assert single.log_evidence == pytest.approx(exact.log_evidence, rel=1e-5)
    for a, b in zip(single.mean, exact.mean, strict=True):
        assert np.asarray(a).dtype == np.float32
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4)
    for a, b in zip(single.variance, exact.variance, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-3)


def test_probabilities_stay_probabilities_at_the_extremes():
    value = np.array([[0.0, 1e-200, 1e8, 1e-8]])
    seen = Seen(value, np.array([1.0, 1e-300, 1e12, 1e-12]), np.ones(4))
    for found in (
        shares_of.normal_shares([seen], SCALES, np.log(WEIGHTS), [1.0], 0.5, Tie()),
        shares_of._array_shares([seen], SCALES, np.log(WEIGHTS), [1.0], 0.5, Tie()),
    ):
        assert ((found.spike >= 0) & (found.spike <= 1)).all()
        assert np.isfinite(found.variance[0]).all()
        assert found.spike[2] == 0.0
        assert found.mean[0][0, 2] == pytest.approx(1e8, rel=1e-10)
        assert found.weights.sum() == pytest.approx(1.0)


def test_threads_that_ask_for_weights_and_evidence_do_not_wait_for_each_other():
    """What one tells may ask another, as a prior that leaves components out does."""
    inside = threading.Barrier(2)

    def nested(name):
        def told():
            with contextlib.suppress(threading.BrokenBarrierError):
                inside.wait(timeout=1)  # broken where one thread cannot come in before the other
            return getattr(inner, name), getattr(inner, name)

        inner = Shares([], [], np.zeros(2), lambda: (1.0, 2.0))
        return Shares([], [], np.zeros(2), told)

    found = {}
    asked = [("weights", "log_evidence"), ("log_evidence", "weights")]
    threads = [
        threading.Thread(
            target=lambda o=outer, i=inner: found.update({o: getattr(nested(i), o)}), daemon=True
        )
        for outer, inner in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert found == {"weights": 2.0, "log_evidence": 1.0}
