"""Rows that are not normal noise are named; normal noise is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cofem
from cofem import operators
from cofem.fitting import outlying
from cofem.fitting.outlying import FAR_AWAY

N, D = 80, 250
WRONG = [7, 21, 40, 66]


def problem(seed, n=N, d=D, k=8, sigma=0.05, kind=float):
    rng = np.random.default_rng([seed, 15])

    def normal(*shape):
        x = rng.normal(size=shape)
        return x if kind is float else (x + 1j * rng.normal(size=shape)) / np.sqrt(2)

    phi, z = normal(n, d) / np.sqrt(n), np.zeros(d, kind)
    z[rng.choice(d, k, replace=False)] = rng.choice([-1.0, 1.0], k)
    return phi, phi @ z + sigma * normal(n), z


def fitted(*data, **options):
    """Return the fit and the sentence that it warned with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = cofem.fit(*data, **options)
    return post, " ".join(str(w.message) for w in caught)


def error(post, z):
    return np.linalg.norm(post.mean[: len(z)] - z) / np.linalg.norm(z)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("n", [10, 25, 100])
def test_normal_residuals_stay_below_the_bound(n, axes):
    """At a rate of one in twenty that can be counted: at most that, and at least a fifth of it."""
    rng, trials, rate = np.random.default_rng(n + axes), 20_000, 0.05
    sizes = np.sqrt(np.sum(rng.normal(size=(trials, n, axes)) ** 2, axis=2))
    above = np.max(sizes, axis=1) > outlying.bound(n, axes, rate) * np.sort(sizes)[:, n // 2]
    three = 3 * np.sqrt(rate / trials)
    assert rate / 5 < np.mean(above) < rate + three


KINDS = {
    "plain": {},
    "noise known": {"noise_precision": 400.0},
    "ard": {"prior": "ard", "noise_precision": 400.0},
    "intercept": {"intercept": True},
    "nonnegative": {"nonnegative": True},
    "complex": {"kind": complex},
    "much noise": {"sigma": 0.5},
    "few data": {"n": 20, "d": 30, "k": 3, "sigma": 0.3},
    "dense": {"n": 40, "d": 40, "k": 40},
    "weights": {"weights": np.geomspace(0.1, 10, N)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_normal_noise_is_not_named(kind):
    """Thirty fits of each kind: one false alarm in all of them has a probability of .03."""
    options = dict(KINDS[kind])
    made = {name: options.pop(name) for name in ("n", "d", "k", "sigma", "kind") if name in options}
    for seed in range(30):
        phi, y, z = problem(seed, **made)
        if "nonnegative" in options:
            y = y + phi @ (np.abs(z) - z)
        if "weights" in options:
            noise = np.random.default_rng(seed).normal(size=N) / np.sqrt(options["weights"])
            y = phi @ z + 0.05 * noise
        assert "further" not in fitted(phi, y, **options)[1]


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, {}),
        ({"noise_precision": 400.0}, {}),
        ({"intercept": True}, {}),
        ({"method": "cofem"}, {}),
        ({"weights": np.linspace(1, 2, N)}, {}),
        ({}, {"kind": complex}),
        ({"real": True}, {"kind": complex}),
        ({"intercept": True, "weights": np.linspace(1, 2, N)}, {}),
    ],
)
def test_gross_errors_are_named(options, made):
    phi, y, _ = problem(3, **made)
    y[WRONG] += 30 * np.array([1, -1, 1, -1])
    post, said = fitted(phi, y, **options)
    assert post.converged  # the iterations: what the rows do to the answer is said by itself
    assert post.message.endswith("; " + said)
    assert "4 of 80 rows" in said
    listed = said.split("(rows ")[1].split(")")[0]
    assert sorted(map(int, listed.split(", "))) == WRONG


def test_a_fit_to_noise_with_heavy_tails_has_converged():
    """Student's t with 3 degrees of freedom: the rows are named, and the answer is good.

    It may be as far from the truth as with normal noise of the same variance, by half as much
    again: least squares is as good for both.
    """
    errors, warned = [], 0
    for seed in range(20):
        phi, y, z = problem(seed)
        rng = np.random.default_rng(seed)
        heavy = 0.05 / np.sqrt(3) * rng.standard_t(3, N)
        post, said = fitted(phi, phi @ z + heavy)
        assert post.converged
        assert (FAR_AWAY in said) == (said != "")
        warned += said != ""
        errors.append([error(post, z), error(fitted(phi, y)[0], z)])
    assert warned >= 3
    assert np.median(np.divide(*np.transpose(errors))) < 1.5


def test_a_fit_that_does_not_converge_says_both_at_once():
    phi, y, _ = problem(3)
    y[WRONG] += 30 * np.array([1, -1, 1, -1])
    with pytest.warns(cofem.ConvergenceWarning, match=FAR_AWAY) as caught:
        post = cofem.fit(phi[:, :8], y, prior="ard", noise_precision=400.0, max_iter=2)
    assert len(caught) == 1
    assert "max_iter=2" in post.message
    assert not post.converged


def test_one_precision_each_explains_some_of_the_errors():
    """So "ard" may leave only some of the wrong rows far away; those that it names are wrong."""
    phi, y, _ = problem(3)
    y[WRONG] += 30 * np.array([1, -1, 1, -1])
    said = fitted(phi, y, prior="ard")[1]
    listed = {int(row) for row in said.split("(rows ")[1].split(")")[0].split(", ")}
    assert len(listed) >= 2
    assert listed <= set(WRONG)


def test_of_joint_tasks_the_one_with_the_error_is_named():
    phi, y, z = problem(4)
    more = np.stack([y, phi @ z + 0.05 * np.random.default_rng(1).normal(size=N), y])
    more[1, 33] += 50
    assert "1 of 80 rows" in (said := fitted(phi, more)[1])
    assert "(row 33 of task 1)" in said
    phi = phi[:, :40]  # with few unknowns, so that none of them can explain the error
    more = np.random.default_rng(2).normal(size=(3, N)) + phi @ np.ones(40)
    more[1, 33] += 50
    assert "(row 33 of task 1)" in fitted([phi, phi.copy(), phi], list(more))[1]


def test_rows_with_coefficients_of_their_own_are_not_named():
    """Half of the residuals are next to nothing: what the fit explains of each row is counted."""
    rng = np.random.default_rng(0)
    z = np.where(np.arange(120) < 70, rng.choice([-1.0, 1.0], 120) * 50, 0.0)
    y = z + rng.normal(size=120)
    assert fitted(np.eye(120), y, noise_precision=1.0)[1] == ""


def test_rows_that_may_be_wrong_can_be_unknowns_too():
    """The remedy of docs/noise.md: as good as if the wrong rows had been left out."""
    for noise in (None, 400.0):
        phi, y, z = problem(5)
        kept = np.setdiff1d(np.arange(N), WRONG)
        without = fitted(phi[kept], y[kept], noise_precision=noise)[0]
        y[WRONG] += 30 * np.array([1, -1, 1, -1])
        both = operators.hstack([operators.as_operator(phi), operators.Identity(N)])
        post, said = fitted(both, y, noise_precision=noise)
        assert said == ""
        assert error(post, z) < 1.2 * error(without, z) < 0.1
        assert np.flatnonzero(post.support()[D:]).tolist() == WRONG


def test_a_fit_that_was_ended_early_is_not_looked_at():
    phi, y, _ = problem(6)
    y[3] += 30
    assert "further" not in fitted(phi, y, tol=0, max_iter=5)[1]
    assert fitted(phi, y, callback=lambda state: True)[1] == ""


def test_zero_rows_do_not_count_for_the_scale():
    """Most data are missing and filled in with zeros: what is there has a scale of its own."""
    phi, y, _ = problem(7)
    phi, y = np.concatenate([phi, np.zeros((200, D))]), np.concatenate([y, np.zeros(200)])
    assert fitted(phi, y)[1] == ""
    assert fitted(phi, y, noise_precision=400.0)[1] == ""
    y[3] += 30
    assert "(row 3)" in fitted(phi, y)[1]
