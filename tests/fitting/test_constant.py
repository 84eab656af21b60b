"""Whoever forgets the intercept is told so; whoever does not need one is left alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import cofem
from cofem.fitting import constant
from cofem.model import validation
from cofem.operators import Dense, from_functions

ASKS = "pass intercept=True"


def model_of(phi, y):
    return validation.model_from(validation.tasks_from(phi, y, None)[0], False, None)


def matrix(rng, kind, shape):
    """Columns as users have them: with means of their own, but for "normal"."""
    if kind == "counts":
        return rng.binomial(2, 0.3, size=shape).astype(float)
    return rng.uniform(size=shape) if kind == "positive" else rng.normal(size=shape)


def problem(seed, kind="positive", shape=(120, 200), offset=7.0, sigma=0.3):
    rng = np.random.default_rng([seed, 23])
    phi, z = matrix(rng, kind, shape), np.zeros(shape[1])
    z[rng.choice(shape[1], 6, replace=False)] = 2 * rng.normal(size=6)
    return phi, phi @ z + offset + sigma * rng.normal(size=shape[0]), z


def said(*data, **options):
    """Return what a fit warns of, and the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(*data, **options)
    return " ".join(str(w.message) for w in caught), post


def wrong(post, z):
    return np.linalg.norm(np.asarray(post.mean) - z) / np.linalg.norm(z)


@pytest.mark.parametrize("kind", ["positive", "counts", "normal"])
@pytest.mark.parametrize("shape", [(120, 200), (60, 100), (300, 60)])
def test_a_forgotten_constant_is_asked_for(kind, shape):
    """Also where other priors take over without it; with it the error is half or less."""
    phi, y, z = problem(0, kind, shape)
    words, post = said(phi, y)
    assert ASKS in words
    assert not post.converged
    words, better = said(phi, y, intercept=True)
    assert words == ""
    assert wrong(better, z) < min(0.3, 0.5 * wrong(post, z))
    assert abs(better.intercept - 7) < 4 * better.intercept_std


@pytest.mark.parametrize("kind", ["positive", "counts", "normal"])
def test_data_without_a_constant_are_left_alone(kind):
    """Thirty fits of each kind, most with a mean that the columns explain."""
    asked = 0
    for seed in range(30):
        shape = [(60, 100), (100, 40), (40, 120)][seed % 3]
        phi, y, _ = problem(seed, kind, shape, offset=0.0, sigma=[0.03, 0.3, 1.0][seed // 10])
        words, post = said(phi, y)
        assert ASKS not in words + post.message
        asked += constant.may_lack_a_constant(model_of(phi, y))
    assert asked > 15 or kind == "normal"  # so the evidence was looked at, and decided


def test_how_often_noise_is_looked_at_for_its_mean(monkeypatch):
    """At one in twenty in place of one in 10⁴, where it can be counted: 2,000 data of noise."""
    rng, phi = np.random.default_rng(0), np.eye(200)[:, :3]
    monkeypatch.setattr(constant, "SIGNIFICANT", 1.96)
    asked = [constant.may_lack_a_constant(model_of(phi, rng.normal(size=200))) for _ in range(2000)]
    assert abs(np.mean(asked) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2000)


VARIANTS = {
    "float32": lambda phi, y: ((phi.astype("f4"), y.astype("f4")), {}),
    "sparse": lambda phi, y: ((sparse.csr_array(phi), y), {}),
    "noise known": lambda phi, y: ((phi, y), {"noise_std": 0.3}),
    "weights": lambda phi, y: ((phi, y), {"weights": np.linspace(0.5, 2, len(y))}),
    "nonnegative": lambda phi, y: ((phi, y), {"nonnegative": True}),
    "cofem": lambda phi, y: ((phi, y), {"method": "cofem"}),
    "joint": lambda phi, y: ((phi, np.stack([y, y[::-1]])), {}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_every_kind_of_data(variant):
    phi, y, z = problem(3, shape=(100, 60))
    if variant == "nonnegative":
        y = y + phi @ (np.abs(z) - z)
    data, options = VARIANTS[variant](phi, y)
    assert ASKS in said(*data, **options)[0]
    assert said(*data, intercept=True, **options)[0] == ""


def test_a_column_of_ones_is_a_constant():
    phi, y, z = problem(1)
    words, post = said(np.column_stack([phi, np.ones(len(y))]), y)
    assert words == ""
    assert abs(post.mean[-1] - 7) < 1
    assert wrong(post, np.append(z, 7.0)) < 0.1


def test_not_asked_where_it_would_cost_too_much_or_mean_nothing():
    phi, y, _ = problem(2, shape=(60, 40))
    operator = from_functions(lambda x: x @ phi.T, lambda x: x @ phi, phi.shape, float)
    for data, options in [
        ((operator, y), {}),
        ((Dense(phi), y), {}),
        ((phi, y), {"tol": 0, "max_iter": 5}),
        ((phi, y), {"max_iter": 5}),
        ((phi, y), {"prior": "ard"}),
        ((phi, y), {"callback": lambda state: True}),
        ((phi + 0j, y), {}),
    ]:
        assert ASKS not in said(*data, **options)[0]


def test_the_second_fit_is_in_the_count_of_products():
    phi, y, _ = problem(4, shape=(60, 40))
    _, post = said(phi, y)
    _, alone = said(from_functions(lambda x: x @ phi.T, lambda x: x @ phi, phi.shape, float), y)
    assert post.history["products"][-1] > alone.history["products"][-1]
