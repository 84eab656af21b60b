"""The simulated problems follow the laws that the paper states."""

import dataclasses

import numpy as np
import pytest

from cofem import simulate
from cofem.operators import DCT, Convolution, Dense

LAWS = [simulate.gaussian, simulate.dct, simulate.convolution]


@pytest.mark.parametrize("law", LAWS)
def test_the_same_seed_gives_the_same_problem(law):
    a, b, other = law(240, 3), law(240, 3), law(240, 4)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.z, b.z)
    assert not np.array_equal(a.y, other.y)


@pytest.mark.parametrize("law", LAWS)
def test_noise_has_its_standard_deviation(law):
    problem = law(3000, 0, noise_std=0.1)
    noise = problem.y - problem.phi.forward(problem.z)
    assert noise.shape == (problem.phi.shape[0],)
    assert noise.std() == pytest.approx(0.1, rel=0.1)
    assert problem.noise_precision == pytest.approx(100.0)


def test_gaussian_has_unit_columns_and_uniform_spikes():
    problem = simulate.gaussian(2000, 0)
    assert isinstance(problem.phi, Dense)
    assert problem.phi.shape == (500, 2000)
    assert problem.phi.column_norms_squared().mean() == pytest.approx(1.0, rel=0.02)
    spikes = problem.z[problem.z != 0]
    assert spikes.size == 120
    assert abs(spikes).max() < 2
    assert spikes.var() == pytest.approx(4 / 3, rel=0.2)


def test_dct_takes_distinct_sorted_samples_and_normal_spikes():
    problem = simulate.dct(9000, 0)
    assert isinstance(problem.phi, DCT)
    assert problem.phi.shape == (3000, 9000)
    assert (np.diff(problem.phi.rows) > 0).all()
    spikes = problem.z[problem.z != 0]
    assert spikes.size == 1080
    assert spikes.var() == pytest.approx(5.0, rel=0.15)


def test_convolution_has_an_exponential_kernel_and_spikes():
    problem = simulate.convolution(5000, 0, decay=0.1)
    assert isinstance(problem.phi, Convolution)
    assert problem.phi.shape == (5000, 5000)
    np.testing.assert_allclose(problem.phi.kernel[:3], [1.0, 0.9, 0.81])
    spikes = problem.z[problem.z != 0]
    assert spikes.size == 1000
    assert spikes.min() > 0
    assert spikes.mean() == pytest.approx(1.5, rel=0.1)


def test_the_number_of_spikes_is_rounded_down_but_not_by_rounding_errors():
    assert np.count_nonzero(simulate.dct(1024, 0, sparsity=0.12).z) == 122
    assert np.count_nonzero(simulate.dct(100, 0, sparsity=0.29).z) == 29


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate.dct(2, 0), "D = 2 is too small for undersampling = 3"),
        (lambda: simulate.dct(6, 0), "no spike is left"),
        (lambda: simulate.gaussian(100, 0, sparsity=0.0), "sparsity must be above 0"),
        (lambda: simulate.gaussian(100, 0, noise_std=0.0), "noise_std must be positive"),
        (lambda: simulate.convolution(100, 0, decay=1.0), "decay must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_problem_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        simulate.dct(300, 0).noise_std = 1.0


def test_nrmse():
    assert simulate.nrmse(np.array([3.0, 4.0]), np.array([3.0, 4.0])) == 0.0
    assert simulate.nrmse(np.zeros(2), np.array([3.0, 4.0])) == pytest.approx(100.0)
    assert simulate.nrmse(np.array([3j, 0]), np.array([4j, 0])) == pytest.approx(25.0)
    with pytest.raises(ValueError, match="truth is zero"):
        simulate.nrmse(np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="estimate has shape"):
        simulate.nrmse(np.ones(2), np.ones(3))
