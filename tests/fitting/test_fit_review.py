"""Mistakes that once gave a wrong answer, or none, without a word."""

import warnings

import numpy as np
import pytest

import cofem
from cofem.operators import FiniteDifference, from_functions


def small(seed=0, n=20, d=30):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    z = np.zeros(d)
    z[:3] = 2.0
    return phi, phi @ z + 0.01 * rng.normal(size=n)


def test_functions_that_take_columns_for_rows_are_refused():
    square = np.random.default_rng(0).normal(size=(30, 30))
    phi = from_functions(lambda z: square @ z, lambda v: square.T @ v, (30, 30), float)
    with pytest.raises(ValueError, match=r"phi: forward does not treat a batch .* row by row"):
        cofem.fit(phi, np.ones(30), noise_precision=1.0)
    by_row = from_functions(
        lambda z: square @ z, lambda v: square.T @ v, (30, 30), float, batched=False
    )
    cofem.fit(by_row, np.ones(30), noise_precision=1.0, max_iter=2, tol=0)


def test_unsolved_variances_are_not_silent():
    phi, y = small()
    method = cofem.CoFEM(max_cg_steps=3, mean_rtol=0.9, mean_balance=0.0)
    with pytest.warns(cofem.ConvergenceWarning, match="variances"):
        post = cofem.posterior(
            phi, y, precision=np.logspace(-3, 3, 30), noise_precision=1e8, method=method
        )
    assert not post.converged


def test_user_functions_are_never_called_from_two_threads():
    import threading

    seen = set()
    d = 1 << 16
    weight = np.linspace(1, 2, d)

    def product(z):
        seen.add(threading.get_ident())
        return weight * z

    phi = from_functions(product, product, (d, d), float)
    y = np.zeros(d)
    y[:5] = 1.0
    cofem.fit(phi, y, noise_precision=1e4, method="cofem", max_iter=2, tol=0)
    assert seen == {threading.get_ident()}


def test_one_complex_task_makes_all_unknowns_complex():
    phi, y = small()
    options = {"noise_precision": 1e4, "prior": "ard", "method": "em", "max_iter": 3, "tol": 0}
    post = cofem.fit([phi, phi], [y, y + 1j * y], **options)
    assert post.mean.dtype == np.complex128
    # Both have one α, and the mean is linear in the data.
    np.testing.assert_array_equal(post.mean[0].imag, 0)
    np.testing.assert_allclose(post.mean[1], (1 + 1j) * post.mean[0], rtol=1e-12)


def test_a_coupling_that_is_not_an_average_is_named():
    phi, y = small()
    with pytest.raises(ValueError, match="coupling must be non-negative"):
        cofem.fit(phi, y, noise_precision=1e4, coupling=FiniteDifference((30,), 0))


def test_probes_with_zeros_give_no_nan():
    phi, y = small()

    def sparse(number, dimension, like, seed):
        return np.random.default_rng(seed % 2**32).integers(-1, 2, (number, dimension)) * 1.0

    options = {"noise_precision": 1e4, "max_iter": 10, "tol": 0}
    post = cofem.fit(phi, y, method=cofem.CoFEM(probes=sparse), **options)
    exact = cofem.fit(phi, y, method="em", **options)
    # Within half an error bar of the answer without probes.
    assert np.all(abs(post.mean - exact.mean) < 0.5 * exact.std)


def test_exact_methods_hold_in_single_precision():
    phi, y = small()
    exact = cofem.fit(phi, y, noise_precision=1e8, method="em", max_iter=5, tol=0)
    single = cofem.fit(
        phi.astype(np.float32), y.astype(np.float32),
        noise_precision=1e8, method="em", max_iter=5, tol=0,
    )  # fmt: skip
    assert single.mean.dtype == np.float32
    np.testing.assert_allclose(single.mean, exact.mean, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("factor", [1e-13, 1e13])
def test_small_and_large_units_in_single_precision(factor):
    phi, y = small()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        post = cofem.posterior(
            phi.astype(np.float32), (factor * y).astype(np.float32),
            precision=np.full(30, 1 / factor**2), noise_precision=1e4 / factor**2,
            method="cofem",
        )  # fmt: skip
    assert np.all(np.isfinite(post.variance_error))
    assert np.any(post.variance_error > 0)


def test_column_norms_are_the_caller_s_own():
    op = cofem.operators.Dense(np.eye(3))
    norms = op.column_norms_squared()
    norms *= 100
    np.testing.assert_array_equal(op.column_norms_squared(), np.ones(3))


def test_samples_of_tasks_and_seeds_do_not_repeat():
    phi, y = small()
    post = cofem.posterior(
        phi, np.stack([y, y]), precision=np.ones(30), noise_precision=1e4, method="em"
    )
    first, second = post.sample(2, seed=0), post.sample(2, seed=1)
    assert not np.allclose(first[:, 1], second[:, 0])


def test_a_wrong_adjoint_of_a_map_is_refused():
    phi, y = small()
    post = cofem.fit(phi, y, noise_precision=1e4, max_iter=3, tol=0)
    wrong = from_functions(lambda z: z, lambda v: 9 * v, (30, 30), float)
    with pytest.raises(ValueError, match="linear_map"):
        post.variance_of(wrong)
    with pytest.raises(ValueError, match="phi_new"):
        post.predict(np.eye(4))


def test_messages_of_the_door():
    phi, y = small()
    with pytest.raises(ValueError, match="y is a column"):
        cofem.fit(phi, y[:, None], noise_precision=1.0)
    for wrong in (None, "abc"):
        with pytest.raises(TypeError, match="y must be an array of numbers"):
            cofem.fit(phi, wrong, noise_precision=1.0)
    with pytest.raises(TypeError, match="callback"):
        cofem.fit(phi, y, noise_precision=1.0, callback=3)
    assert cofem.CoFEM(probe_rtol=np.float32(0.1)).probe_rtol == np.float32(0.1)


def test_a_callback_stops_quietly_with_any_truth():
    phi, y = small()
    post = cofem.fit(
        phi, y, noise_precision=1e4, callback=lambda s: np.bool_(s.iteration == 3), max_iter=20
    )
    assert post.history["iteration"] == [1, 2, 3]
    assert not post.converged
    assert "callback" in post.message


@pytest.mark.parametrize("at", [1, 12, 40, 70, 130])
@pytest.mark.parametrize("options", [{}, {"prior": "ard"}, {"noise_precision": 25.0}])
def test_nothing_begins_after_the_callback_has_ended_the_fit(at, options):
    """Asked again, in the next start or by "ard", a callback that says so once was overheard."""
    rng, calls = np.random.default_rng(5), []
    phi = np.cumsum(rng.normal(size=(20, 90)), axis=1)  # coherent: the learned prior fails on it
    phi, y = phi - phi.mean(axis=0), rng.normal(size=20)

    def once(state):
        calls.append(state.mean.copy())
        return len(calls) == at

    post = cofem.fit(phi, y, callback=once, method="cofem", max_iter=60, **options)
    assert len(calls) <= at
    if len(calls) == at:
        assert not post.converged
        assert post.message.startswith("stopped by the callback")


def test_a_file_without_data_refuses_an_operator(tmp_path):
    phi, y = small()
    post = cofem.fit(phi, y, noise_precision=1e4, max_iter=3, tol=0)
    post.save(tmp_path / "a.npz")
    again = cofem.load(tmp_path / "a.npz")
    assert again.history["iteration"] == [1, 2, 3]
    assert isinstance(again.history["iteration"][0], int)
    again.save(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="phi"):
        cofem.load(tmp_path / "b.npz", phi)
