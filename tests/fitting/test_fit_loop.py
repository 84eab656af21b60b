"""The EM loop as a user sees it: counting, stopping, history, callback, methods."""

import itertools

import numpy as np
import pytest

import cofem
from cofem import simulate

PROBLEM = simulate.dct(192, 0, sparsity=0.06)
METHODS = ["em", "woodbury", "cofem"]


PRIORS = ["ard", "mixture"]


def fit(method="cofem", **options):
    return cofem.fit(
        PROBLEM.phi, PROBLEM.y, noise_precision=PROBLEM.noise_precision, method=method, **options
    )


# -- counting and stopping -----------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_tol_zero_runs_exactly_max_iter_without_a_warning(method, max_iter):
    post = fit(method, max_iter=max_iter, tol=0.0)  # a warning would be an error here
    assert post.history["iteration"] == list(range(1, max_iter + 1))
    assert str(max_iter) in post.message


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("method", METHODS)
def test_the_change_of_the_mean_is_recorded(method, prior):
    means = []
    post = fit(method, prior=prior, callback=lambda state: means.append(state.mean.copy()))
    assert post.converged
    change = [np.linalg.norm(b - a) / np.linalg.norm(b) for a, b in itertools.pairwise(means)]
    np.testing.assert_allclose(post.history["change"][1:], change, rtol=1e-6)
    assert post.history["change"][0] == np.inf
    words = {"ard": ("of its error bar",), "mixture": ("at rest", "is certified")}[prior]
    assert any(word in post.message for word in words)


@pytest.mark.parametrize("method", METHODS)
def test_not_converged_is_a_warning_and_a_flag(method):
    with pytest.warns(cofem.ConvergenceWarning, match="max_iter"):
        post = fit(method, max_iter=3, tol=1e-9, prior="ard")
    assert not post.converged
    assert "max_iter" in post.message
    assert len(post.history["iteration"]) == 3


def test_one_iteration_cannot_settle():
    with pytest.warns(cofem.ConvergenceWarning):
        post = fit(max_iter=1)
    assert not post.converged


def test_unsolved_systems_are_told_even_when_the_mean_has_settled():
    with pytest.warns(cofem.ConvergenceWarning, match="CG steps"):
        post = fit(cofem.CoFEM(max_cg_steps=1), max_iter=30)
    assert not post.converged


def test_unsolved_systems_are_told_under_tol_zero():
    # tol = 0 asks not to be told about the mean; that the solves failed is another matter.
    with pytest.warns(cofem.ConvergenceWarning, match="CG steps"):
        post = fit(cofem.CoFEM(max_cg_steps=1), max_iter=4, tol=0.0)
    assert not post.converged


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_everything_returned_belongs_to_the_precision_returned(method, nonnegative):
    for options in ({"max_iter": 6, "tol": 0.0}, {"tol": 1e-2}):
        post = fit(method, nonnegative=nonnegative, prior="ard", **options)
        # With z ≥ 0 the evidence is that of the normal posterior before it is rectified.
        again = cofem.posterior(
            PROBLEM.phi, PROBLEM.y, precision=post.precision,
            noise_precision=post.noise_precision, method="em",
        )  # fmt: skip
        # An iterative mean is good when its error is lost in its own error bar.
        close = 1e-8 if method != "cofem" else 0.05
        distance = abs(post.gaussian_mean - again.gaussian_mean)
        assert (distance < close * np.sqrt(again.gaussian_variance)).all()
        if method == "cofem":
            error = 5 * post.variance_error + 1e-6 * again.gaussian_variance
            assert (abs(post.gaussian_variance - again.gaussian_variance) < error).mean() > 0.99
            # Where its systems were hard, its moments are exact and the error is zero.
            error = 4 * post.log_evidence_error + 1e-9 * abs(again.log_evidence)
            assert abs(post.log_evidence - again.log_evidence) < error
        else:
            np.testing.assert_allclose(post.gaussian_variance, again.gaussian_variance, rtol=1e-6)
            assert post.log_evidence == pytest.approx(again.log_evidence, rel=1e-9)


# -- history and callback ------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_history(method):
    post = fit(method, max_iter=9, tol=0.0, prior="ard")
    history = post.history
    assert set(history) == {
        "iteration", "change", "log_evidence", "cg_steps", "products", "seconds",
    }  # fmt: skip
    assert {len(values) for values in history.values()} == {9}
    assert (np.diff(history["seconds"]) >= 0).all()
    products = np.diff(history["products"])
    assert (products >= 0).all()
    assert history["products"][0] > 0
    assert history["log_evidence"][-1] == post.log_evidence
    if method == "cofem":
        assert (products > 0).all()
        assert all(steps > 0 for steps in history["cg_steps"])
    else:
        assert (np.diff(history["log_evidence"]) > -1e-8).all()
        assert not any(history["cg_steps"])


@pytest.mark.parametrize("method", ["em", "cofem"])
def test_history_of_a_learned_prior_has_one_evidence_the_last(method):
    post = fit(method, max_iter=9, tol=0.0, prior="mixture")
    *before, last = post.history["log_evidence"]
    assert len(before) == 8
    assert np.all(np.isnan(before))
    assert last == post.log_evidence
    assert np.isfinite(last)


@pytest.mark.parametrize("prior", PRIORS)
def test_products_are_the_products(prior):
    multiplied = []
    phi = np.random.default_rng(0).standard_normal((30, 50)) / 5

    def counted(function):
        def call(x):
            multiplied.append(x.size // x.shape[-1])
            return function(x)

        return call

    op = cofem.operators.from_functions(
        counted(lambda z: z @ phi.T), counted(lambda y: y @ phi), (30, 50), float
    )
    y = phi @ np.eye(50)[3]
    totals = []
    post = cofem.fit(op, y, noise_precision=1e4, method="cofem", max_iter=5, tol=0.0,
                     prior=prior,
                     callback=lambda state: totals.append(sum(multiplied)))  # fmt: skip
    # Between iterations every product is counted; the first has the set-up besides.
    counted_here = np.diff(post.history["products"][:-1])
    np.testing.assert_array_equal(counted_here, np.diff(totals[:-1]))


def test_callback_sees_every_iteration():
    states = []
    post = fit(max_iter=5, tol=0.0, prior="ard", callback=states.append)
    assert [s.iteration for s in states] == [1, 2, 3, 4, 5]
    assert all(s.max_iter == 5 for s in states)
    assert states[-1].mean.shape == states[-1].precision.shape == (192,)
    np.testing.assert_array_equal(states[-1].precision, post.precision)
    assert [s.products for s in states[:-1]] == post.history["products"][:-1]


def test_callback_stops_by_returning_true():
    post = fit(callback=lambda state: state.iteration == 3)  # the user's wish: no warning
    assert not post.converged
    assert len(post.history["iteration"]) == 3
    assert "callback" in post.message
    assert (post.variance > 0).all()
    # Anything else than True goes on.
    assert len(fit(max_iter=4, tol=0.0, callback=lambda state: 1).history["iteration"]) == 4


def test_an_error_in_the_callback_is_the_users():
    def broken(state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fit(callback=broken)


# -- methods -------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_methods_by_name_and_by_object(method):
    by_name = fit(method, max_iter=4, tol=0.0)
    kind = {"em": cofem.EM, "woodbury": cofem.Woodbury, "cofem": cofem.CoFEM}[method]
    by_object = fit(kind(), max_iter=4, tol=0.0)
    np.testing.assert_array_equal(by_name.mean, by_object.mean)
    assert by_name.method == by_object.method == method
    assert by_name.options == kind()


def test_auto_says_what_ran():
    assert fit("auto", max_iter=2, tol=0.0).method in ("em", "woodbury")
    large = simulate.dct(2**15, 0)
    post = cofem.fit(large.phi, large.y, noise_precision=1e4, max_iter=1, tol=0.0)
    assert post.method == "cofem"
    assert isinstance(post.options, cofem.CoFEM)


@pytest.mark.parametrize("kind", [cofem.EM, cofem.Woodbury, cofem.CoFEM])
def test_initial_precision_is_where_it_starts(kind):
    seen = []
    fit(kind(initial_precision=3.5), max_iter=1, tol=0.0, callback=seen.append)
    np.testing.assert_array_equal(seen[0].precision, 3.5)


def test_the_start_explains_the_power_of_the_data():
    seen = []
    fit("em", max_iter=1, tol=0.0, prior="ard", callback=seen.append)
    alpha = seen[0].precision
    phi, beta = PROBLEM.phi, PROBLEM.noise_precision
    columns = (phi.to_dense() ** 2).sum(axis=0)
    expected_power = np.sum(columns / alpha) + phi.shape[0] / beta
    np.testing.assert_allclose(alpha / columns, alpha[0] / columns[0])  # units do not matter
    assert expected_power == pytest.approx(np.linalg.norm(PROBLEM.y) ** 2, rel=1e-6)


def test_a_state_prints_in_a_line(capsys):
    fit(callback=print, max_iter=3, tol=0.0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"IterationState({i} of at most 3, change ")
               for i, line in enumerate(lines, 1))  # fmt: skip
    assert all(line.endswith("192 unknowns)") and len(line) < 120 for line in lines)
