"""An intercept through every door: operators, rivals, files, many fits, the command line."""

import numpy as np
import pytest
from intercept_cases import BETA, N, problem, sparse_problem

import cofem
from cofem.operators import DCT, Autoregressive, Convolution, Fourier

OPERATORS = {
    "dct": DCT(64, np.arange(0, 64, 2)),
    "convolution": Convolution(0.8 ** np.arange(20), 40),
    "walk": Autoregressive((1.0,), 30),
    "fourier": Fourier(24),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_what_their_matrices_give(name):
    op = OPERATORS[name]
    random = np.random.default_rng(4)
    y = op.forward(random.standard_normal(op.shape[1])) + 7
    alpha = 10 ** random.uniform(-1, 1, op.shape[1])
    options = {"precision": alpha, "noise_precision": 20.0, "intercept": True}
    ours = cofem.posterior(op, y, method="cofem", **options)
    dense = cofem.posterior(op.to_dense(), y, method="em", **options)
    np.testing.assert_allclose(ours.mean, dense.mean, atol=1e-4)
    assert ours.intercept == pytest.approx(dense.intercept, abs=1e-4)
    assert ours.intercept_std == pytest.approx(dense.intercept_std, rel=1e-4)


@pytest.mark.parametrize("method", ["amp", "vi", "sequential"])
def test_the_rivals_take_it_too(method):
    phi, y, offset, z = sparse_problem(0, n=120)
    post = cofem.fit(phi, y, method=method, intercept=True, noise_std=0.1, max_iter=1000)
    assert abs(post.intercept - offset) < 6 * post.intercept_std + 0.05
    assert np.linalg.norm(post.mean - z) < 0.2 * np.linalg.norm(z)


def test_non_negative_groups_and_a_sparsifier():
    random = np.random.default_rng(0)
    phi = random.standard_normal((60, 40)) + 1
    z = np.zeros(40)
    z[[4, 5, 6]] = [1.0, 2.0, 3.0]
    y = phi @ z - 20 + 0.05 * random.standard_normal(60)
    options = {"intercept": True, "noise_std": 0.05}
    for more in ({"nonnegative": True}, {"groups": np.arange(40) // 4}):
        post = cofem.fit(phi, y, **options, **more)
        assert abs(post.intercept + 20) < 0.2, more
    jumps = cofem.operators.FiniteDifference((40,), 0)
    post = cofem.fit(phi, y, sparsifier=jumps, **options)
    assert abs(post.intercept + 20) < 0.5


def test_a_column_of_ones_beside_it_is_harmless():
    phi, y, offset, _ = sparse_problem(0)
    phi = np.column_stack([phi, np.ones(len(y))])
    for prior in ("mixture", "ard"):
        post = cofem.fit(phi, y, intercept=True, prior=prior, noise_std=0.1)
        assert np.all(np.isfinite(post.mean))
        assert abs(post.mean[-1]) < 1e-6
        assert abs(post.intercept - offset) < 0.5


# -- words ------------------------------------------------------------------------


def test_what_is_refused():
    phi, y, _ = problem(0)
    with pytest.raises(ValueError, match="at least two data"):
        cofem.fit(phi[:1], y[:1], intercept=True)
    with pytest.raises(TypeError, match="intercept must be True or False"):
        cofem.fit(phi, y, intercept=1)
    with pytest.raises(ValueError, match=r'"banded" takes neither intercept=True .* use "cofem"'):
        cofem.fit(Autoregressive((0.9,), 20), np.ones(20), method="banded", intercept=True)


@pytest.mark.filterwarnings("ignore:the noise given")  # the noise of these data is 1
def test_without_it_there_is_none():
    phi, y, _ = problem(0)
    with pytest.warns(cofem.ConvergenceWarning, match="pass intercept=True"):
        post = cofem.fit(phi, y, noise_precision=BETA)
    assert post.intercept is None
    assert post.intercept_std is None
    assert "intercept" not in repr(post)
    assert "intercept=" in repr(cofem.fit(phi, y, noise_precision=BETA, intercept=True))


# -- files, many, the command line ---------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "complex", "joint", "weights", "stacked"])
def test_a_file_holds_it(tmp_path, kind):
    phi, y, alpha = problem(0, complex_=kind in ("complex", "stacked"))
    options = {"precision": alpha, "noise_precision": BETA, "intercept": True}
    if kind == "joint":
        y = np.stack([y, y + 5])
    if kind == "weights":
        options["weights"] = np.linspace(1, 3, N)
    if kind == "stacked":
        options["real"] = True
    post = cofem.posterior(phi, y, **options)
    post.save(tmp_path / "p.npz")
    for again in (cofem.load(tmp_path / "p.npz"), cofem.load(tmp_path / "p.npz", phi)):
        np.testing.assert_array_equal(again.intercept, post.intercept)
        np.testing.assert_array_equal(again.intercept_std, post.intercept_std)
        assert type(again.intercept) is type(post.intercept)
    new = problem(1, complex_=kind in ("complex", "stacked"))[0]
    for ours, theirs in zip(again.predict(new), post.predict(new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    with pytest.raises(ValueError, match="phi must have"):
        cofem.load(tmp_path / "p.npz", phi[:-1])


def test_many_fits_have_one_each(tmp_path):
    phi, y, _, _ = sparse_problem(0)
    offsets = np.array([0.0, 40.0])
    for store in (None, tmp_path / "store"):
        many = cofem.fit_many(phi, y + offsets[:, None], intercept=True, noise_std=0.1, store=store)
        np.testing.assert_allclose(many.intercept - offsets, many.intercept[0], atol=1e-6)
        assert many.intercept.dtype == np.float64
        assert many[1].intercept == many.intercept[1]
        assert many[1].intercept_std == many.intercept_std[1] > 0
    alone = cofem.fit(phi, y, intercept=True, noise_std=0.1)
    assert many.intercept[0] == pytest.approx(alone.intercept)
    assert cofem.fit_many(phi, y[None], noise_std=0.1, prior="ard").intercept is None
    with pytest.raises(ValueError, match="noise_std and noise_precision"):
        cofem.fit_many(phi, y[None], noise_std=0.1, noise_precision=100.0)


def test_the_command_line(tmp_path):
    import json

    from typer.testing import CliRunner

    from cofem.cli import app

    phi, y, offset, _ = sparse_problem(0)
    np.save(tmp_path / "phi.npy", phi)
    np.save(tmp_path / "y.npy", y)
    files = [str(tmp_path / name) for name in ("phi.npy", "y.npy", "out.npz")]
    run = ["solve", files[0], files[1], "-o", files[2], "--intercept"]
    done = CliRunner().invoke(app, [*run, "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert abs(facts["intercept"] - offset) < 6 * facts["intercept_std"]
    assert cofem.load(files[2]).intercept == facts["intercept"]
    assert "intercept" in CliRunner().invoke(app, run).output
