"""The best Θ: no worse than others, and near a lower bound that no Θ can beat."""

import numpy as np
import pytest
from theory_cases import DICTIONARIES, dense, random_support

from cofem import theory
from cofem.theory.scaling import minimise_departure


def lower_bound(gram, theta, reach=1e-3):
    """A certificate that no Θ has ‖Θ⁻¹G − I‖₂ below it, by duality.

    For ‖Z‖_* ≤ 1 the norm of diag(t)G − I is at least Re⟨Z, diag(t)G − I⟩ = Σ t_j c_j − tr Z,
    c_j = Re Σ_k conj(Z_jk) G_jk, hence at least −tr Z for all t > 0 once no c_j is negative.
    """
    left, values, right = np.linalg.svd(gram / theta[:, None] - np.eye(len(theta)))
    weight = np.exp((values - values[0]) / (reach * values[0]))
    Z = (left * (weight / weight.sum())) @ right
    c = np.sum((Z.conj() * gram).real, axis=1)
    Z = Z + np.diag(np.maximum(-c, 0) / np.diag(gram).real)
    return -np.trace(Z).real / np.linalg.norm(Z, "nuc")


@pytest.mark.parametrize("name", DICTIONARIES)
def test_the_best_theta_is_no_worse_than_the_others(name):
    op = DICTIONARIES[name]
    for seed in range(3):
        support = random_support(op, seed)
        best = theory.departure(op, support, "best")
        multiples = [theory.departure(op, support, c) for c in np.geomspace(0.01, 100, 60)]
        others = [theory.departure(op, support, "jacobi"), *multiples]
        assert best <= min(others) * (1 + 1e-12)
        assert best < 1  # t → 0 gives 1, and a step towards the columns is a descent
        theta = np.ones(op.shape[1])
        theta[np.sort(support)] = theory.best_theta(op, support)
        assert theory.departure(op, support, theta) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "dct", "uneven", "fourier"])
def test_the_best_theta_is_close_to_the_infimum(name):
    op = DICTIONARIES[name]
    for seed in range(3):
        phi = dense(op)[:, random_support(op, seed)]
        gram = phi.conj().T @ phi
        theta = minimise_departure(gram)
        reached = np.linalg.norm(gram / theta[:, None] - np.eye(12), 2)
        floor = max(lower_bound(gram, theta, reach) for reach in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2))
        assert floor <= reached * (1 + 1e-9)
        assert reached <= 1.02 * floor


def test_the_best_theta_of_two_columns_by_grid_search():
    gram = np.array([[4.0, 0.9], [0.9, 1.0]])
    grid = np.geomspace(0.2, 20, 400)
    first, second = np.meshgrid(grid, grid)
    scaled = np.stack([first, second], -1)[..., None]
    every = np.linalg.norm(gram / scaled - np.eye(2), ord=2, axis=(-2, -1))
    theta = minimise_departure(gram)
    reached = np.linalg.norm(gram / theta[:, None] - np.eye(2), 2)
    assert every.min() * (1 - 0.02) <= reached <= every.min() * (1 + 1e-9)
