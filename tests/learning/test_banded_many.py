"""Many traces in one call are the fits of each on its own."""

import numpy as np
import pytest

from cofem.learning.banded_traces import fit_traces
from cofem.learning.loop import run_em
from cofem.learning.moments.banded import BandedEStep
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Task, Tie, initial_precision
from cofem.operators import Autoregressive
from cofem.solvers.banded import factors as banded
from cofem.solvers.banded import traces as banded_traces

KERNELS = [(0.95,), (0.95 + 0.5, -0.95 * 0.5)]


def traces(kernel, rows=3, n=300, beta=50.0, seed=0):
    random = np.random.default_rng(seed)
    z = (random.random((rows, n)) < 0.05) * (0.5 + random.random((rows, n)))
    clean = Autoregressive(kernel, n).forward(z)
    return clean + random.standard_normal((rows, n)) / np.sqrt(beta)


def one_by_one(kernel, y, beta, nonnegative, max_iter, tol):
    phi = Autoregressive(kernel, y.shape[-1])
    for row, noise in zip(y, beta, strict=True):
        model = Model((Task(phi, row, float(noise)),), Tie(), nonnegative)
        start = np.full(y.shape[-1], initial_precision(model))
        step = BandedEStep(model.families[0], model.like)
        # Traces stop by the change of the whole mean, which the loop leaves to a callback.
        yield run_em(
            model,
            [step],
            start,
            max_iter=max_iter,
            tol=0.0,
            callback=lambda state: state.iteration > 1 and state.change <= tol,
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(("max_iter", "tol"), [(25, 0.0), (200, 1e-3), (1, 1e-3)])
def test_each_trace_is_fitted_as_alone(kernel, nonnegative, max_iter, tol):
    y = traces(kernel)
    beta = np.array([50.0, 20.0, 400.0])
    found = fit_traces(
        kernel, y, beta[:, None], nonnegative=nonnegative, max_iter=max_iter, tol=tol
    )
    expected = list(one_by_one(kernel, y, beta, nonnegative, max_iter, tol))
    for i, outcome in enumerate(expected):
        mean = outcome.found.means[0]
        np.testing.assert_allclose(
            found.mean[i], mean, rtol=1e-8, atol=1e-10 * np.max(np.abs(mean))
        )
        np.testing.assert_allclose(found.variance[i], outcome.reports[0].variance, rtol=1e-8)
        np.testing.assert_allclose(found.precision[i], outcome.found.alpha, rtol=1e-8)
        assert found.log_evidence[i] == pytest.approx(outcome.reports[0].log_evidence, rel=1e-10)
        assert found.iterations[i] == len(outcome.found.history["iteration"])
        assert found.converged[i] == (outcome.found.verdict is Verdict.STOPPED)
        change = outcome.found.history["change"][-1]
        assert found.change[i] == pytest.approx(change, rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_belong_to_the_precision_returned(kernel):
    y = traces(kernel, rows=2)
    found = fit_traces(kernel, y, 50.0, max_iter=7, tol=0.0)
    again = banded.moments(kernel, y, found.precision, 50.0)
    np.testing.assert_allclose(found.mean, again.mean, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found.variance, again.variance, rtol=1e-10)
    np.testing.assert_allclose(found.log_evidence, again.log_evidence, rtol=1e-11)


def test_threads_and_batch_axes_change_nothing(monkeypatch):
    y = traces(KERNELS[0], rows=6)
    flat = fit_traces(KERNELS[0], y, 50.0, max_iter=5)
    monkeypatch.setattr(banded_traces, "SAMPLES_PER_THREAD", 10)
    monkeypatch.setenv("COFEM_NUM_THREADS", "2")
    folded = fit_traces(KERNELS[0], y.reshape(2, 3, 300), 50.0, max_iter=5)
    for name in flat._fields:
        value = getattr(folded, name)
        np.testing.assert_array_equal(value.reshape(getattr(flat, name).shape), getattr(flat, name))
    single = fit_traces(KERNELS[0], y[2], 50.0, max_iter=5)
    np.testing.assert_array_equal(single.mean, flat.mean[2])
    assert single.log_evidence.shape == ()


@pytest.mark.parametrize("scale", [1e-90, 1e90])
@pytest.mark.parametrize("kernel", KERNELS)
def test_units_change_nothing_but_units(kernel, scale):
    y = traces(kernel, rows=1)
    here = fit_traces(kernel, y, 50.0, max_iter=10, tol=0.0)
    there = fit_traces(kernel, y * scale, 50.0 / scale**2, max_iter=10, tol=0.0)
    np.testing.assert_allclose(there.mean, here.mean * scale, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(there.precision, here.precision / scale**2, rtol=1e-9)


def test_missing_samples_are_bridged():
    kernel, n = (0.95,), 300
    z = np.zeros(n)
    z[[40, 150, 220]] = [1.0, 2.0, 1.5]
    y = Autoregressive(kernel, n).forward(z) + 0.01 * np.random.default_rng(1).standard_normal(n)
    beta = np.full(n, 1e4)
    beta[[60, 61, 62, 170]] = 0.0
    y[beta == 0] = np.nan
    found = fit_traces(kernel, y, beta)
    assert np.all(np.isfinite(found.mean))
    np.testing.assert_array_equal(np.flatnonzero(found.mean > 0.5), [40, 150, 220])


def test_no_data_and_zero_data():
    nothing = fit_traces((0.9,), np.full(5, np.nan), 0.0)
    assert not nothing.mean.any()
    assert nothing.log_evidence == 0.0
    zeros = fit_traces((0.9,), np.zeros(50), 4.0, max_iter=5)
    assert not zeros.mean.any()
    assert np.all(np.isfinite(zeros.precision))


def test_given_start():
    y = traces(KERNELS[0], rows=2)
    once = fit_traces(KERNELS[0], y, 50.0, max_iter=1, initial_precision=3.0)
    np.testing.assert_allclose(once.precision, 3.0, rtol=1e-15)
    rest = fit_traces(KERNELS[0], y, 50.0, max_iter=5, tol=0.0)
    first = fit_traces(KERNELS[0], y, 50.0, max_iter=3, tol=0.0)
    second = fit_traces(KERNELS[0], y, 50.0, max_iter=3, tol=0.0, initial_precision=first.precision)
    np.testing.assert_allclose(second.precision, rest.precision, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"max_iter": 2.5}, TypeError, "max_iter"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"tol": np.nan}, ValueError, "tol"),
        ({"noise_precision": -1.0}, ValueError, "noise_precision"),
        ({"initial_precision": 0.0}, ValueError, "initial_precision"),
        ({"coefficients": (0.5, 0.1, 0.1)}, ValueError, "coefficients"),
        ({"y": np.ones((2, 4), complex)}, TypeError, "y must be real"),
    ],
)
def test_bad_input_is_named(options, error, text):
    given = {"coefficients": (0.9,), "y": np.ones((2, 4)), "noise_precision": 1.0, **options}
    with pytest.raises(error, match=text):
        fit_traces(**given)
