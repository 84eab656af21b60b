"""Checkpoints of the learned prior: a fit that was killed ends where the unbroken one does."""

import numpy as np
import pytest

import cofem
from cofem import simulate
from cofem.learning.checkpoint import Checkpoint
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie


class KilledError(Exception):
    pass


def stop_at(iteration):
    def callback(state):
        if state.iteration == iteration:
            raise KilledError

    return callback


MADE = simulate.dct(256, seed=1, noise_std=0.05)
ROWS = np.stack([MADE.y, MADE.y[::-1]])
CASES = {
    "noise given": (MADE.y, {"noise_precision": MADE.noise_precision}),
    "noise unknown": (MADE.y, {}),
    "float32": (MADE.y.astype(np.float32), {}),
    "joint tasks": (ROWS, {}),
    "groups": (MADE.y, {"groups": np.arange(256) // 4}),
}


@pytest.mark.parametrize("method", ["em", "cofem"])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_fit_is_the_unbroken_one_bit_for_bit(tmp_path, method, name):
    y, options = CASES[name]
    options = {"method": method, "prior": "mixture", "max_iter": 25, "tol": 0.0, **options}
    whole = cofem.fit(MADE.phi, y, **options)
    path = tmp_path / "state.npz"
    for iteration in (7, 18):  # before the first write, and after
        with pytest.raises(KilledError):
            cofem.fit(MADE.phi, y, callback=stop_at(iteration), checkpoint=path, **options)
    seen = []
    again = cofem.fit(
        MADE.phi, y, checkpoint=path, callback=lambda s: seen.append(s.iteration), **options
    )
    assert seen == list(range(11, 26))
    for part in ("mean", "variance", "precision", "pull", "probability", "gaussian_mean"):
        np.testing.assert_array_equal(getattr(again, part), getattr(whole, part))
    np.testing.assert_array_equal(again.marginals.weights, whole.marginals.weights)
    np.testing.assert_array_equal(again.noise_precision, whole.noise_precision)
    assert again.log_evidence == whole.log_evidence
    assert again.history["change"] == whole.history["change"]


@pytest.mark.parametrize("noise_std", [0.05, 0.3])
def test_a_fit_with_several_starts_too(tmp_path, noise_std):
    made = simulate.dct(256, seed=2, noise_std=noise_std)
    options = {"method": "em", "prior": "auto"}
    whole = cofem.fit(made.phi, made.y, **options)
    path = tmp_path / "state.npz"
    with pytest.raises(KilledError):
        cofem.fit(made.phi, made.y, checkpoint=path, callback=stop_at(13), **options)
    again = cofem.fit(made.phi, made.y, checkpoint=path, **options)
    assert again.prior == whole.prior
    np.testing.assert_array_equal(again.mean, whole.mean)
    assert again.noise_precision == whole.noise_precision


def test_a_noise_that_was_found_is_kept_before_the_first_iteration(tmp_path):
    model = Model((Task(MADE.phi, MADE.y, 1.0),), Tie())
    arguments = tmp_path / "state.npz", model, EM(), 0
    Checkpoint(*arguments).found_noise([4.0], 70)
    again = Checkpoint(*arguments)
    assert (again.noise_precisions, again.searched) == ([4.0], 70)
    assert again.resume() is None
    assert again.seconds == 0.0


def test_a_checkpoint_of_another_prior_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    options = {"noise_precision": MADE.noise_precision, "method": "em", "checkpoint": path}
    cofem.fit(MADE.phi, MADE.y, prior="ard", max_iter=12, tol=0.0, **options)
    with pytest.raises(ValueError, match="another problem or other settings"):
        cofem.fit(MADE.phi, MADE.y, prior="mixture", max_iter=12, tol=0.0, **options)
