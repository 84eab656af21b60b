"""Values that are equal as the user measures them, in columns whose lengths differ."""

import numpy as np
import pytest

import cofem
from cofem.learning.supports import sampler
from cofem.learning.supports.sampler import SIMILAR, _units
from cofem.model.model import Model, Task, Tie
from cofem.operators import as_operator


def uneven_kernel(seed, width=0.03, n=120, d=120, k=6, sigma=0.01):
    """Radial basis functions at uneven places: lengths differ by a third, neighbours by little."""
    random = np.random.default_rng([51, seed])
    x, centres = np.sort(random.uniform(size=n)), np.linspace(0, 1, d)
    phi = np.exp(-((x[:, None] - centres) ** 2) / (2 * width**2))
    z = np.zeros(d)
    z[random.choice(d, k, replace=False)] = random.choice([-1.0, 1.0], k)
    return phi, phi @ z + sigma * random.normal(size=n), z


def error(post, z, lengths=1.0):
    return np.linalg.norm(post.mean / lengths - z) / np.linalg.norm(z)


def test_which_units_are_asked():
    random = np.random.default_rng(0)
    even = random.normal(size=(30, 8))
    even /= np.linalg.norm(even, axis=0)
    assert len(_units(even)) == 1
    for factor, asked in ((1.01, 2), (0.99 * SIMILAR, 2), (1.01 * SIMILAR, 1)):
        phi = even.copy()
        phi[:, 3] *= factor
        own, *common = _units(phi)
        np.testing.assert_allclose(own, np.linalg.norm(phi, axis=0))
        assert len(common) == asked - 1
        for lengths in common:
            np.testing.assert_allclose(lengths, np.sqrt(np.mean(own**2)))
    phi[:, 5] = 0.0  # has no length
    assert all((lengths > 0).all() for lengths in _units(phi / np.linalg.norm(phi[:, 3])))
    assert len(_units(np.zeros((4, 3)))) == 1


def test_values_equal_in_the_users_units_are_found():
    """With the law in columns of length one alone, half of such problems fail."""
    for seed in range(2):
        phi, y, z = uneven_kernel(seed, n=80, d=80, k=5)
        assert error(cofem.fit(phi, y), z) < 0.05


def test_values_equal_in_columns_of_length_one_still_are():
    phi, y, z = uneven_kernel(0)
    lengths = np.linalg.norm(phi, axis=0)
    scale = np.exp(np.random.default_rng(1).normal(size=phi.shape[1]))
    alike = phi / lengths
    y = alike @ z + 0.003 * np.random.default_rng(2).normal(size=len(y))
    plain, other = cofem.fit(alike, y), cofem.fit(alike * scale, y)
    assert error(plain, z) < 0.05
    assert error(other, z, 1 / scale) < 0.05


@pytest.mark.parametrize("better", [-1.0, 1.0])
def test_the_users_units_are_taken_only_if_clearly_better(monkeypatch, better):
    phi, y, _ = uneven_kernel(0)
    scores = iter([sampler.CLEARLY + better, 0.0])
    monkeypatch.setattr(sampler, "_height", lambda runs: next(scores))
    kept = []
    monkeypatch.setattr(sampler.Draws, "of", lambda lengths, draws: kept.append(lengths))
    monkeypatch.setattr(sampler, "WARMING", 4)
    monkeypatch.setattr(sampler, "COUNTED", 4)
    monkeypatch.setattr(sampler, "LONGER", 0)
    model = Model((Task(as_operator(phi), y, 1.0),), Tie())
    sampler.sample_supports(model, 0.0, 1e4, np.empty(0, np.int64), 0)
    assert (np.ptp(kept[0]) > 0) == (better < 0)


def test_a_callback_is_given_means_in_the_users_units():
    phi, y, z = uneven_kernel(1)
    means = []
    post = cofem.fit(1e3 * phi, y, callback=lambda state: means.append(state.mean.copy()))
    last = np.linalg.norm(means[-1] - post.mean) / np.linalg.norm(post.mean)
    assert last < 0.2
    assert error(post, z, 1e-3) < 0.05
