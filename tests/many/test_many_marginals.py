"""Intervals, supports and probabilities of many fits are those of single ones, on any store."""

import dataclasses
import io
import json

import numpy as np
import pytest
import rich.console
from many_cases import STORES, place, problems
from scipy.sparse import csr_array
from scipy.special import ndtr

import cofem
from cofem.learning.supports.draws import Draws
from cofem.many import running
from cofem.many.marginals import AtomAndNormal, Kept, kept_of
from cofem.progress import CountProgress

SETTINGS = {
    "learned": {"prior": "mixture", "noise_precision": 1e4},
    "auto": {},
    "ard": {"prior": "ard", "noise_precision": 1e4, "max_iter": 30, "tol": 0},
    "nonnegative": {"nonnegative": True, "noise_precision": 1e4},
    "nonnegative ard": {"nonnegative": True, "prior": "ard", "noise_precision": 1e4, "max_iter": 30,
                        "tol": 0},
    "groups": {"prior": "mixture", "groups": np.arange(30) // 3, "noise_precision": 1e4},
    "intercept": {"intercept": True, "noise_precision": 1e4},
}  # fmt: skip


def assert_as_single(many, phi, Y, **options):
    low, high = many.interval(0.9)
    support = many.support(0.9)
    for p, y in enumerate(Y):
        post = cofem.fit(phi, y, **options)
        assert many.prior[p] == many[p].prior == post.prior
        wanted = post.interval(0.9)
        np.testing.assert_allclose(low[p], wanted[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(high[p], wanted[1], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(support[p], post.support(0.9))
        np.testing.assert_array_equal(many[p].support(0.9), post.support(0.9))
        if post.probability is None:
            assert many[p].probability is None
        else:
            np.testing.assert_array_equal(many.probability[p], post.probability)
            np.testing.assert_array_equal(many[p].probability, post.probability)


@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_they_are_those_of_single_fits(setting):
    phi, Y = problems(4)
    options = SETTINGS[setting]
    if "nonnegative" in options:
        Y = np.abs(Y) * 0.1 + np.abs(phi[:, :4].T)
    assert_as_single(cofem.fit_many(phi, Y, **options), phi, Y, **options)


@pytest.mark.parametrize("kind", STORES)
def test_every_store_keeps_them_and_gives_them_back(kind, tmp_path):
    phi, Y = problems(4)
    options = SETTINGS["learned"]
    target = place(kind, tmp_path)
    cofem.fit_many(phi, Y, store=target, **options)
    again = cofem.fit_many(phi, Y, store=target, **options)  # nothing is left to do but read
    assert_as_single(again, phi, Y, **options)


def test_single_precision_and_two_priors_at_once():
    phi, Y = problems(3)
    many = cofem.fit_many(phi.astype("f"), Y.astype("f"), **SETTINGS["learned"])
    assert many.interval()[0].dtype == many.probability.dtype == np.float32
    assert many.support().any()


def test_complex_problems_have_supports_and_no_intervals():
    phi, Y = problems(3)
    many = cofem.fit_many(phi + 0j, Y * 1j, noise_precision=1e4)
    post = cofem.fit(phi + 0j, Y[1] * 1j, noise_precision=1e4)
    np.testing.assert_array_equal(many.support()[1], post.support())
    with pytest.raises(ValueError, match="complex coordinate has no interval"):
        many.interval()


def test_a_failed_problem_has_no_interval_and_no_support():
    phi, Y = problems(3)
    Y[1, 4] = np.nan
    with pytest.warns(UserWarning, match="1 of 3 problems failed"):
        many = cofem.fit_many(phi, Y, **SETTINGS["learned"])
    low, high = many.interval()
    assert np.isnan(low[1]).all()
    assert np.isnan(high[1]).all()
    assert not many.support()[1].any()
    assert many.prior == ["mixture", "", "mixture"]
    assert np.isnan(many.probability[1]).all()
    assert many[1].probability is None
    assert np.isfinite(low[[0, 2]]).all()


def as_it_was(folder):
    """Make a store what it was before it kept the marginals: fewer arrays, a shorter layout."""
    settings = json.loads((folder / "settings.json").read_text())
    del settings["layout"]["components"]
    (folder / "settings.json").write_text(json.dumps(settings))
    for name in (
        "prior",
        "probability",
        "seen_value",
        "seen_precision",
        "seen_unit",
        "prior_scales",
        "prior_weights",
    ):
        (folder / f"{name}.npy").unlink()  # fmt: skip


def test_a_store_from_before_loads_and_goes_on(tmp_path):
    phi, Y = problems(4)
    options = SETTINGS["learned"]
    first = cofem.fit_many(phi, Y, store=tmp_path / "many", **options)
    mean = np.array(first.mean)
    del first
    as_it_was(tmp_path / "many")
    state = np.load(tmp_path / "many" / "state.npy")
    state[2] = 0
    np.save(tmp_path / "many" / "state.npy", state)
    old = cofem.fit_many(phi, Y, store=tmp_path / "many", **options)
    np.testing.assert_allclose(old.mean, mean, rtol=1e-9, atol=1e-12)
    assert old.probability is None
    assert old.prior == [""] * 4
    assert np.all(old[0].std > 0)
    with pytest.raises(ValueError, match=r"did not keep what intervals and supports need.*resume"):
        old.interval()
    with pytest.raises(ValueError, match="did not keep"):
        old[0].support()
    new = cofem.fit_many(phi, Y, store=tmp_path / "many", resume=False, **options)
    assert new.support().shape == (4, 30)


# -- the bar -------------------------------------------------------------------------------


def terminal():
    return rich.console.Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_bar_counts_problems(monkeypatch, tmp_path):
    console, shown = terminal(), []

    class Watched(CountProgress):
        def __init__(self, total, label, shown):
            super().__init__(total, label, shown=shown, console=console)

        def update(self, done):
            shown.append(done)
            super().update(done)

        def advance(self, count):
            shown.append(shown[-1] + count)
            super().advance(count)

    monkeypatch.setattr(running, "CountProgress", Watched)
    phi, Y = problems(6)
    options = SETTINGS["learned"] | {"store": tmp_path / "many"}
    cofem.fit_many(phi, Y, progress=True, **options)
    assert shown[0] == 0
    assert shown[-1] == 6
    assert "problems" in console.file.getvalue()
    shown.clear()
    state = np.lib.format.open_memmap(tmp_path / "many" / "state.npy", "r+")
    state[:2] = 0
    del state
    cofem.fit_many(phi, Y, progress=True, **options)
    assert (shown[0], shown[-1]) == (4, 6)  # what a resumed run finds counts as done


def test_no_bar_unless_asked_for(capfd):
    phi, Y = problems(3)
    cofem.fit_many(phi, Y, **SETTINGS["learned"])
    cofem.fit_many(phi, Y, progress=True, **SETTINGS["learned"])  # here is no terminal
    assert capfd.readouterr() == ("", "")
    with pytest.raises(TypeError, match="progress"):
        cofem.fit_many(phi, Y, progress="yes")


# -- problems that were sampled ------------------------------------------------------------


def test_a_sampled_problem_keeps_an_atom_and_a_normal():
    """Draws are too many to keep: moments and probability are exact, intervals those of normals."""
    rng, n = np.random.default_rng(0), 40_000
    z = np.array([3.0, -1.0, 2.0, 0.0]) + np.array([0.5, 0.3, 1.5, 0.0]) * rng.normal(size=(n, 4))
    z[:, 1] *= rng.random(n) < 0.5
    z[:, 2] *= rng.random(n) < 0.97
    drawn = Draws(z.mean(axis=0), z.var(axis=0), np.mean(z != 0, axis=0), csr_array(z))
    plain = cofem.posterior(np.eye(4), np.ones(4), precision=np.ones(4), noise_precision=1.0)
    post = dataclasses.replace(plain, marginals=drawn, prior="mixture")
    kept = Kept({name: np.asarray(value)[None] for name, value in kept_of(post).items()})
    again = kept.posterior(0, post.mean, post.variance)
    assert kept.prior(0) == again.prior == "mixture"
    np.testing.assert_array_equal(kept.probabilities(0), post.probability)
    np.testing.assert_array_equal(again.support(), post.support())
    for level in (0.5, 0.9):
        # A quantile of 40,000 draws is known to 0.02 of the deviation, at most; five times that.
        for found, right in zip(again.interval(level), post.interval(level), strict=True):
            assert np.all(np.abs(found - right) <= 0.1 * post.std)


def test_the_quantiles_of_an_atom_and_a_normal():
    value, deviation, share = (x.ravel() for x in np.meshgrid([-2.0, 0.0, 3.0], [0.5, 2.0],
                                                              [0.0, 0.3, 1.0]))  # fmt: skip
    law = AtomAndNormal(value, deviation**-2.0, share, value, deviation)
    for p in (0.025, 0.3, 0.5, 0.9, 0.975):
        x = law.quantile(p)
        for side, holds in ((x + 1e-6, np.greater_equal), (x - 1e-6, np.less_equal)):
            mass = share * ndtr((side - value) / deviation) + (1 - share) * (side >= 0)
            assert holds(mass, p).all()  # the distribution function crosses p at x


@pytest.mark.parametrize("wrong", [",loat32", "float33", 7])
def test_a_store_whose_type_is_damaged_is_refused(wrong, tmp_path):
    """NumPy raises SyntaxError for the first (found by the fuzzer)."""
    phi, Y = problems(1)
    options = {"noise_precision": 1e4, "store": tmp_path / "many", "n_jobs": 1}
    cofem.fit_many(phi, Y, **options)
    file = tmp_path / "many" / "settings.json"
    settings = json.loads(file.read_text())
    settings["layout"]["dtype"] = wrong
    file.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"settings of .* are damaged"):
        cofem.fit_many(phi, Y, **options)
