"""Support, images and traces: what is drawn is what the posterior says."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import cofem
from cofem import plot
from cofem.operators import Autoregressive


def axes():
    return Figure().subplots()


def lines(ax):
    return {line.get_label().split(" (")[0]: line.get_xydata() for line in ax.get_lines()}


@pytest.fixture
def calcium():
    phi = Autoregressive((0.9,), n=80)
    z = np.zeros(80)
    z[[10, 50]] = 1.0, 2.0
    y = phi.forward(z) + 0.05 * np.random.default_rng(0).standard_normal(80)
    return cofem.fit(phi, y, noise_precision=400.0, nonnegative=True), y


def test_support_counts_and_places_every_coordinate(calcium):
    post, y = calcium
    drawn = lines(plot.support(post, ax=axes()))
    inside = post.support()
    assert post.prior == "mixture"
    np.testing.assert_allclose(drawn["support at 95%"][:, 1], post.probability[inside])
    np.testing.assert_allclose(drawn["support at 95%"][:, 0], np.abs(post.mean[inside]))
    assert len(drawn["not in the support"]) == (~inside).sum()
    phi = post.tasks[0].operator
    old = cofem.fit(phi, y, noise_precision=400.0, nonnegative=True, prior="ard", max_iter=300)
    drawn = lines(plot.support(old, ax=axes()))
    np.testing.assert_allclose(drawn["support at 95%"][:, 1], old.std[old.support()])


def test_traces_draw_the_data_and_the_fit(calcium):
    post, y = calcium
    ax = plot.traces(post, ax=axes(), rate=20.0)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["data"][:, 1], y)
    np.testing.assert_allclose(drawn["data"][:, 0], np.arange(80) / 20)
    fit = post.tasks[0].operator.forward(post.mode)
    np.testing.assert_allclose(drawn["fit"][:, 1], fit)
    np.testing.assert_allclose(drawn["support"][:, 0], np.flatnonzero(post.support()) / 20)
    assert np.std(y - fit) < 0.1  # it lies on the data


def test_traces_of_a_joint_fit_and_without_the_operator(calcium, tmp_path):
    post, y = calcium
    phi = post.tasks[0].operator
    joint = cofem.fit(phi, np.stack([y, 2 * y]), noise_precision=[400.0, 100.0], nonnegative=True)
    drawn = lines(plot.traces(joint, ax=axes(), task=1))
    np.testing.assert_allclose(drawn["data"][:, 1], 2 * y)
    post.save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="operator"):
        plot.traces(cofem.load(tmp_path / "p.npz"), ax=axes())
    with pytest.raises(ValueError, match="rate must be positive"):
        plot.traces(post, ax=axes(), rate=0.0)


@pytest.mark.parametrize("quantity", ["std", "variance", "mean"])
@pytest.mark.parametrize("dtype", [float, complex])
def test_maps_show_the_pixels_in_their_places(quantity, dtype):
    y = np.arange(6).astype(dtype) * (1 if dtype is float else 1j)
    post = cofem.posterior(np.eye(6), y, precision=np.arange(1.0, 7), noise_precision=2.0)
    (image,) = plot.variance_map(post, (2, 3), ax=axes(), quantity=quantity).images
    expected = np.abs(getattr(post, quantity)).reshape(2, 3)
    np.testing.assert_allclose(image.get_array(), expected)


def test_maps_refuse_what_is_no_image():
    post = cofem.posterior(np.eye(6), np.ones(6), precision=np.ones(6), noise_precision=1.0)
    with pytest.raises(ValueError, match="6 pixels"):
        plot.variance_map(post, (2, 2), ax=axes())
    with pytest.raises(ValueError, match="quantity"):
        plot.variance_map(post, (2, 3), ax=axes(), quantity="z")
