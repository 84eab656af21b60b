"""The mean of CoFEM never rests: when it only trembles, the fit is done."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.inference import loop
from cofem.inference.convergence import WINDOW, Drift

# At this noise the relative change stalls at six to nine times the default tol.
NOISY = simulate.convolution(512, seed=1, sparsity=0.2, noise_std=0.1)


def fit(problem=NOISY, method="cofem", **options):
    options = {"noise_precision": problem.noise_precision} | options
    return cofem.fit(problem.phi, problem.y, method=method, **options)


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_that_only_trembles_converges_with_default_options(seed):
    problem = simulate.convolution(512, seed=seed, sparsity=0.2, noise_std=0.1)
    post = fit(problem, max_iter=160)  # a warning would be an error here
    assert post.converged
    assert "noise of the random probes" in post.message
    # The plain rule had not fired.
    assert min(post.history["change"]) > 1e-4
    assert len(post.history["iteration"]) < 160
    with_all = fit(problem, max_iter=200, tol=0.0)
    error, least = (simulate.nrmse(p.mean, problem.z) for p in (post, with_all))
    assert error < least + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise_std", [0.01, 0.1])
@pytest.mark.parametrize(
    ("make", "sparsity"),
    [(simulate.dct, 0.12), (simulate.dct, 0.14), (simulate.gaussian, 0.06),
     (simulate.convolution, 0.2)],
    ids=["dct-12", "dct-14", "gaussian", "convolution"],
)  # fmt: skip
def test_it_does_not_stop_early(make, sparsity, noise_std, seed):
    problem = make(1024, seed=seed, sparsity=sparsity, noise_std=noise_std)
    errors, changes, stopped, drift = [], [], [], Drift(1e-4)

    def watch(state):
        changes.append(state.change)
        errors.append(simulate.nrmse(state.mean, problem.z))
        if drift.settled([state.mean], state.iteration) and min(changes) > 1e-4:
            stopped.append(state.iteration)

    fit(problem, max_iter=200, tol=0.0, callback=watch)
    if stopped:
        assert errors[stopped[0] - 1] < errors[-1] + 0.05


def test_tol_zero_still_runs_all_iterations():
    post = fit(max_iter=130, tol=0.0)
    assert len(post.history["iteration"]) == 130
    assert not post.converged


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
def test_exact_methods_wait_for_the_change_itself(monkeypatch):
    before = fit(method="em", max_iter=70, tol=1e-7)
    monkeypatch.setattr(loop.Drift, "settled", lambda *arguments: True)
    after = fit(method="em", max_iter=70, tol=1e-7)
    assert before.history["change"] == after.history["change"]
    assert before.message == after.message


def test_a_resumed_fit_stops_where_the_unbroken_one_does(tmp_path):
    whole = fit(max_iter=160)
    assert whole.converged
    end = len(whole.history["iteration"])
    assert end > 2 * WINDOW + 10
    path = tmp_path / "c.npz"
    fit(max_iter=160, checkpoint=path, callback=lambda state: state.iteration == end - 7)
    resumed = fit(max_iter=160, checkpoint=path)
    assert len(resumed.history["iteration"]) == end
    np.testing.assert_array_equal(resumed.mean, whole.mean)


@pytest.mark.parametrize("kind", ["float64", "float32", "complex128", "torch"])
def test_tremor_is_rest_and_drift_is_not(kind):
    rng = np.random.default_rng(0)
    target = rng.normal(size=(2, 400))
    if kind != "torch":
        target = target.astype(kind) * (1 + (1j if kind == "complex128" else 0))
    velocity = 5e-3 * rng.normal(size=(2, 400)) / 400**0.5 * np.linalg.norm(target)

    def rests(speed, tol=1e-3):
        drift = Drift(tol)
        for t in range(1, 201):
            mean = target + speed * t * velocity + 0.05 * rng.normal(size=(2, 400))
            mean = mean.astype(target.dtype)
            if kind == "torch":
                mean = pytest.importorskip("torch").from_numpy(mean)
            if drift.settled([mean[:1], mean[1:]], t):
                return t
        return None

    assert rests(0.0) == 3 * WINDOW  # steps are seventy times tol
    assert rests(1.0) is None  # five times tol per iteration, hidden in the tremor
    assert rests(0.0, tol=0.0) is None


def test_a_mean_that_is_used_again_is_not_forgotten():
    # The solver may write the next mean into the memory of the last.
    drift, buffer = Drift(1e-3), np.empty(50)
    stops = []
    for t in range(1, 101):
        buffer[:] = 1.0 + 0.01 * t
        stops.append(drift.settled([buffer], t))
    assert not any(stops)
