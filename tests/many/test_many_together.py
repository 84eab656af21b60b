"""Problems on a device are one large fit: the same answers as one by one."""

import numpy as np
import pytest
from many_cases import problems

import cofem
from cofem.many import running, together
from cofem.many.copies import Copies
from cofem.operators import DCT, Convolution, Dense, check_adjoint

torch = pytest.importorskip("torch")
OPTIONS = {"prior": "ard", "max_iter": 20, "tol": 0.0}


@pytest.fixture
def anywhere(monkeypatch):
    """Take tensors on the CPU for tensors on a device."""
    monkeypatch.setattr(running, "on_device", torch.is_tensor)


@pytest.mark.parametrize("operator", [DCT(16, np.arange(0, 16, 3)), Convolution([1.0, 0.5], 9)])
def test_copies_are_a_block_diagonal_matrix(operator):
    copies = Copies(operator, 3)
    check_adjoint(copies)
    dense = np.kron(np.eye(3), operator.to_dense())
    np.testing.assert_allclose(copies.to_dense(), dense, atol=1e-12)
    np.testing.assert_allclose(copies.column_norms_squared(), (dense**2).sum(axis=0), atol=1e-12)
    x = np.random.default_rng(0).standard_normal((2, dense.shape[1]))
    np.testing.assert_allclose(copies.gram(x), x @ (dense.T @ dense), atol=1e-12)


@pytest.mark.parametrize("noise", [1e4, "each its own"])
def test_answers_are_those_of_exact_fits_one_by_one(anywhere, noise):
    phi, Y = problems(count=8, n=40, d=60)
    if noise != 1e4:
        noise = np.linspace(0.5e4, 2e4, 8)
    many = cofem.fit_many(
        Dense(torch.asarray(phi)), torch.asarray(Y), noise_precision=noise,
        method=cofem.CoFEM(n_probes=32, report_probes=128), **OPTIONS,
    )  # fmt: skip
    assert many.mean.shape == (8, 60)
    for p, beta in enumerate(np.broadcast_to(noise, 8)):
        exact = cofem.fit(phi, Y[p], noise_precision=float(beta), method="em", **OPTIONS)
        gap = np.linalg.norm(many.mean[p] - exact.mean) / np.linalg.norm(exact.mean)
        assert gap < 0.02
        # Under the precisions that were learned, by a dense inverse.
        cov = np.linalg.inv(beta * phi.T @ phi + np.diag(many.precision[p]))
        np.testing.assert_allclose(
            many.mean[p], beta * cov @ phi.T @ Y[p], atol=1e-3 * abs(exact.mean).max()
        )
        # 128 probes: a relative standard deviation of at most √(2/128) = 12 % each.
        shares = many.variance[p] / np.diag(cov)
        assert abs(np.mean(shares) - 1) < 0.06
        assert many.noise_precision[p] == beta


def test_rows_do_not_touch_each_other(anywhere):
    phi, Y = problems(count=4, n=40, d=60)
    options = {"noise_precision": 1e4, "method": cofem.CoFEM(n_probes=64), **OPTIONS}
    plain = cofem.fit_many(Dense(torch.asarray(phi)), torch.asarray(Y), **options)
    Y[2] = Y[2][::-1] * 1.5
    other = cofem.fit_many(Dense(torch.asarray(phi)), torch.asarray(Y), **options)
    for p in (0, 1, 3):
        gap = np.linalg.norm(plain.mean[p] - other.mean[p]) / np.linalg.norm(plain.mean[p])
        assert gap < 0.02
    assert np.linalg.norm(plain.mean[2] - other.mean[2]) > 0.1 * np.linalg.norm(plain.mean[2])


def test_more_rows_than_go_at_once(anywhere, monkeypatch):
    monkeypatch.setattr(together, "AT_ONCE", 3 * 60)
    phi, Y = problems(count=7, n=40, d=60)
    many = cofem.fit_many(
        Dense(torch.asarray(phi)), torch.asarray(Y), noise_precision=1e4, **OPTIONS
    )
    assert len(many.message) == 7
    for p in range(7):  # each row has its own answer, that of exact EM but for the probes
        exact = cofem.fit(phi, Y[p], noise_precision=1e4, method="em", **OPTIONS).mean
        assert np.linalg.norm(many.mean[p] - exact) < 0.02 * np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "amp"}, 'method must be "cofem"'),
        ({"nonnegative": True}, 'nonnegative needs prior="ard"'),
        ({"noise_precision": 1.0, "prior": "ard", "intercept": True}, "intercept is no option"),
        ({"noise_precision": 1.0, "prior": "ard", "store": "x"}, "store is for rows on the host"),
    ],
)
def test_what_is_not_of_one_problem_is_refused(anywhere, options, words):
    phi, Y = problems()
    with pytest.raises(TypeError, match=words):
        cofem.fit_many(phi, torch.asarray(Y), **options)


def test_shapes_are_refused_by_name(anywhere):
    phi, Y = problems()
    with pytest.raises(ValueError, match="one problem in every row"):
        cofem.fit_many(phi, torch.asarray(Y[:, 1:]), noise_precision=1.0, prior="ard")
