"""Posteriors under the learned prior, on disk."""

import json

import numpy as np
import pytest

import cofem
from cofem import simulate

PROBLEM = simulate.dct(96, 0, sparsity=0.05)
NAMES = ("value", "precision", "unit", "scales", "weights", "mean", "variance", "probability")


def fitted(y=PROBLEM.y, **options):
    options = {"method": "em", "prior": "mixture", "max_iter": 12, "tol": 0.0} | options
    return cofem.fit(PROBLEM.phi, y, **options)


def assert_same(a, b):
    assert a.prior == b.prior == "mixture"
    for name in NAMES:
        x, y = getattr(a.marginals, name), getattr(b.marginals, name)
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype
    for name in ("mean", "std", "probability", "pull", "precision"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.support(0.9), b.support(0.9))
    assert repr(a) == repr(b)


CASES = {
    "one task": {},
    "cofem": {"method": "cofem"},
    "float32": {"y": PROBLEM.y.astype(np.float32)},
    "joint tasks": {"y": np.stack([PROBLEM.y, -PROBLEM.y, PROBLEM.y])},
    "groups": {"groups": np.arange(96) // 3 * 7},
    "noise given": {"noise_precision": PROBLEM.noise_precision},
    "z ≥ 0": {"nonnegative": True},
}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(tmp_path, name):
    post = fitted(**CASES[name])
    post.save(tmp_path / "p.npz")
    bare, again = cofem.load(tmp_path / "p.npz"), cofem.load(tmp_path / "p.npz", PROBLEM.phi)
    assert_same(post, bare)
    assert_same(post, again)
    for a, b in zip(post.interval(0.9), bare.interval(0.9), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(post.sample(5, seed=1), again.sample(5, seed=1))
    rows = np.eye(96)[:4]
    for a, b in zip(post.predict(rows), again.predict(rows), strict=True):
        np.testing.assert_array_equal(a, b)
    # What was loaded can be saved again.
    again.save(tmp_path / "q.npz")
    assert_same(post, cofem.load(tmp_path / "q.npz"))


def test_round_trip_of_complex(tmp_path):
    op = cofem.operators.Fourier(32, np.arange(32) % 3 > 0)
    y = op.forward(3 * np.eye(32)[4] + 0j)
    post = cofem.fit(op, y, noise_precision=1e3, prior="mixture", max_iter=8, tol=0.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", op)
    assert_same(post, again)
    assert np.iscomplexobj(again.marginals.value)
    np.testing.assert_array_equal(post.sample(3, seed=0), again.sample(3, seed=0))


def test_they_come_back_to_the_library_of_phi(tmp_path):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    phi = torch.from_numpy(random.normal(size=(20, 30)))
    y = phi[:, 3] + 0.1 * torch.from_numpy(random.normal(size=20))
    post = cofem.fit(phi, y, noise_precision=100.0, prior="mixture", max_iter=8, tol=0.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi)
    for name in ("mean", "variance", "probability", "pull"):
        assert torch.is_tensor(getattr(again, name))
        assert torch.equal(getattr(again, name), getattr(post, name))
    assert torch.equal(again.sample(2, seed=0), post.sample(2, seed=0))
    assert torch.equal(again.interval()[0], post.interval()[0])
    assert isinstance(cofem.load(tmp_path / "p.npz").mean, np.ndarray)


def test_readers_without_this_library_find_what_they_look_for(tmp_path):
    post = fitted()
    post.save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as stored:
        for name in ("mean", "variance", "probability"):
            np.testing.assert_array_equal(stored[name], getattr(post, name))


def rewritten(path, about=(), without=(), drop=(), **changes):
    """Write a posterior's file with some of it changed."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name not in drop}
    told = json.loads(str(arrays["about"])) | dict(about)
    told = {name: value for name, value in told.items() if name not in without}
    np.savez(path, **{**arrays, "about": np.asarray(json.dumps(told)), **changes})


def test_a_file_of_before_has_one_precision_per_coordinate(tmp_path):
    path = tmp_path / "old.npz"
    post = fitted(prior="ard", noise_precision=1e4)
    post.save(path)
    rewritten(path, without=("prior",))
    again = cofem.load(path)
    assert again.prior == "ard"
    assert again.marginals is None
    assert again.pull is None
    assert again.probability is None
    np.testing.assert_array_equal(again.mean, post.mean)


CRAFTED = {
    "another prior": {"about": {"prior": "horseshoe"}},
    "a prior that is a list": {"about": {"prior": ["mixture"]}},
    "a sparsifier": {"about": {"sparsified": True}},
    "no values": {"drop": ("seen_value",)},
    "no pull": {"drop": ("pull",)},
    "no weights": {"drop": ("prior_weights",)},
    "a pull of another shape": {"pull": np.ones(95)},
    "complex values": {"seen_value": np.ones(96) * 1j},
    "values that are not finite": {"seen_value": np.full(96, np.nan)},
    "negative precisions": {"seen_precision": -np.ones(96)},
    "units of zero": {"seen_unit": np.zeros(96)},
    "negative variances": {"variance": -np.ones(96)},
    "probabilities above one": {"probability": np.full(96, 1.5)},
    "no spike": {"prior_scales": np.ones(2), "prior_weights": np.array([0.5, 0.5])},
    "weights for others": {"prior_weights": np.array([0.5, 0.5])},
    "weights that are not finite": {"prior_scales": np.array([0.0, 1.0]),
                                    "prior_weights": np.array([np.nan, 0.5])},
    "weights of two": {"prior_scales": np.array([0.0, 1.0]),
                       "prior_weights": np.array([1.0, 1.0])},
    "labels for others": {"group_labels": np.zeros(5, int)},
    "labels that are text": {"group_labels": np.array(["a"] * 96)},
}  # fmt: skip


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_files_are_refused_by_name(tmp_path, case):
    path = tmp_path / "crafted.npz"
    fitted(max_iter=6).save(path)
    assert cofem.load(path, PROBLEM.phi).prior == "mixture"
    rewritten(path, **CRAFTED[case])
    with pytest.raises(ValueError, match=r"crafted\.npz.*damaged"):
        cofem.load(path, PROBLEM.phi)
