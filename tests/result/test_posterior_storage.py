"""Posteriors on disk."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

import cofem
from cofem import simulate

PROBLEM = simulate.dct(96, 0, sparsity=0.05)


def fitted(method="cofem", **options):
    options = {"noise_precision": PROBLEM.noise_precision, "max_iter": 6, "tol": 0.0} | options
    return cofem.fit(PROBLEM.phi, PROBLEM.y, method=method, **options)


def assert_same(a, b):
    for name in ("mean", "variance", "std", "variance_error", "precision", "gaussian_mean"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    for name in ("converged", "message", "method", "nonnegative"):
        assert getattr(a, name) == getattr(b, name)
    np.testing.assert_array_equal(a.log_evidence, b.log_evidence)
    np.testing.assert_array_equal(a.log_evidence_error, b.log_evidence_error)
    np.testing.assert_array_equal(a.noise_precision, b.noise_precision)
    assert type(a.noise_precision) is type(b.noise_precision)
    assert set(a.history) == set(b.history)
    for name, values in a.history.items():
        np.testing.assert_array_equal(values, b.history[name])


@pytest.mark.parametrize(
    "method",
    [
        "em", "woodbury", cofem.CoFEM(n_probes=5, mean_rtol=1e-7), cofem.CoFEM.paper(),
        cofem.CoFEM(n_probes=np.int64(4), probe_rtol=np.float64(0.05)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("nonnegative", [False, True])
def test_round_trip(tmp_path, method, nonnegative):
    post = fitted(method, nonnegative=nonnegative)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz")
    assert_same(post, again)
    assert again.options == post.options
    assert type(again.options) is type(post.options)
    assert [f.name for f in tmp_path.iterdir()] == ["p.npz"]


def test_round_trip_of_joint_tasks(tmp_path):
    y = np.stack([PROBLEM.y, -PROBLEM.y])
    post = cofem.fit(PROBLEM.phi, y, noise_precision=[1e4, 2e4], method="em", max_iter=3, tol=0.0)
    post.save(tmp_path / "p.npz")
    assert_same(post, cofem.load(tmp_path / "p.npz"))
    again = cofem.load(tmp_path / "p.npz", PROBLEM.phi)
    np.testing.assert_array_equal(post.sample(3, seed=0), again.sample(3, seed=0))
    listed = cofem.load(tmp_path / "p.npz", [PROBLEM.phi, PROBLEM.phi])
    np.testing.assert_array_equal(post.sample(3, seed=0), listed.sample(3, seed=0))
    with pytest.raises(ValueError, match="phi"):
        cofem.load(tmp_path / "p.npz", [PROBLEM.phi] * 3)


def test_round_trip_of_complex(tmp_path):
    op = cofem.operators.Fourier(32, np.arange(32) % 3 > 0)
    y = op.forward(np.eye(32)[4] + 0j)
    post = cofem.fit(op, y, noise_precision=1e3, max_iter=4, tol=0.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", op)
    assert_same(post, again)
    np.testing.assert_array_equal(post.sample(3, seed=0), again.sample(3, seed=0))


def test_the_file_holds_plain_arrays_only(tmp_path):
    post = fitted()
    post.save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}  # pickle would raise here
    assert all(a.dtype.kind != "O" for a in arrays.values())
    np.testing.assert_array_equal(arrays["mean"], post.mean)
    np.testing.assert_array_equal(arrays["variance"], post.variance)
    np.testing.assert_array_equal(arrays["precision"], post.precision)


def test_maps_and_samples_need_the_operator(tmp_path):
    post = fitted()
    post.save(tmp_path / "p.npz")
    bare = cofem.load(tmp_path / "p.npz")
    for call in (lambda: bare.sample(2), lambda: bare.predict(np.eye(96)),
                 lambda: bare.variance_of(np.eye(96))):  # fmt: skip
        with pytest.raises(ValueError, match="phi"):
            call()
    assert bare.support().shape == bare.interval()[0].shape == (96,)
    again = cofem.load(tmp_path / "p.npz", PROBLEM.phi)
    np.testing.assert_array_equal(post.sample(5, seed=1), again.sample(5, seed=1))
    R = np.eye(96)[:4]
    np.testing.assert_array_equal(post.predict(R)[1], again.predict(R)[1])


def test_a_phi_of_another_shape_is_refused(tmp_path):
    fitted().save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="phi"):
        cofem.load(tmp_path / "p.npz", np.eye(96))


def my_signs(number, dimension, like, seed):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (number, dimension))


@pytest.mark.parametrize(
    "options", [{"probes": my_signs}, {"preconditioner": np.linspace(1, 2, 96)}], ids=["f", "array"]
)
def test_options_that_are_not_json(tmp_path, options):
    post = fitted(cofem.CoFEM(**options))
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", PROBLEM.phi)
    assert_same(post, again)
    if "preconditioner" in options:
        np.testing.assert_array_equal(again.options.preconditioner, options["preconditioner"])
    # What was loaded can be saved again.
    again.save(tmp_path / "q.npz")
    assert_same(post, cofem.load(tmp_path / "q.npz"))


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match=r"other\.npz"):
        cofem.load(path)
    np.save(tmp_path / "plain.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"plain\.npy"):
        cofem.load(tmp_path / "plain.npy")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(ValueError, match=r"text\.npz"):
        cofem.load(tmp_path / "text.npz")
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        cofem.load(tmp_path / "missing.npz")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch, error):
    post = fitted()

    def interrupted(stream, **arrays):
        stream.write(b"half a file")
        raise error("stop")

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(error):
        post.save(tmp_path / "p.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch):
    post = fitted()
    post.save(tmp_path / "p.npz")
    before = (tmp_path / "p.npz").read_bytes()
    other = dataclasses.replace(post, message="another")

    def interrupted(stream, **arrays):
        stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.save(tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["p.npz"]


def test_saving_twice_replaces(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (2, 3):
            post = fitted(max_iter=n)
            post.save(str(tmp_path / "p.npz"))
    again = cofem.load(str(tmp_path / "p.npz"))
    assert len(again.history["iteration"]) == 3
    assert_same(post, again)


def test_torch_posteriors_are_saved_as_plain_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    phi = torch.asarray(np.random.default_rng(0).standard_normal((10, 20)))
    post = cofem.fit(phi, phi[:, 3], noise_precision=100.0, max_iter=3, tol=0.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi.numpy())
    np.testing.assert_array_equal(again.mean, post.mean.numpy())
    assert again.sample(2, seed=0).shape == (2, 20)


def crafted(path, about=(), drop=(), **changes):
    """Write a posterior's file with some of it changed."""
    fitted().save(path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name not in drop}
    told = json.loads(str(arrays["about"])) | dict(about)
    np.savez(path, **{**arrays, "about": np.asarray(json.dumps(told)), **changes})


COLUMNS = ("iteration", "change", "log_evidence", "cg_steps", "products", "seconds")
CRAFTED = {
    "options is a list": {"about": {"options": [1, 2]}},
    "options is nothing": {"about": {"options": None}},
    "options has an unknown name": {"about": {"options": {"foo": 1}}},
    "options has a bad value": {"about": {"options": {"n_probes": -3}}},
    "method is a list": {"about": {"method": ["em"]}},
    "message is a number": {"about": {"message": 3}},
    "nonnegative is a string": {"about": {"nonnegative": "false"}},
    "a column of the history is missing": {"drop": ("history_change",)},
    "the history is missing": {"drop": tuple(f"history_{name}" for name in COLUMNS)},
    "iterations that are none": {"history_iteration": np.full(6, np.nan)},
    "infinite products": {"history_products": np.full(6, np.inf)},
    "a complex change": {"history_change": np.ones(6) * 1j},
    "noise that is text": {"noise_precision": np.array("a")},
    "noise of four tasks": {"noise_precision": np.ones(4)},
    "negative noise": {"noise_precision": np.array(-1.0)},
    "negative precisions": {"precision": -np.ones(96)},
    "negative variances": {"gaussian_variance": -np.ones(96)},
    "complex variances": {"gaussian_variance": np.ones(96) * 1j},
    "data that are text": {"y_0": np.array(["a"] * 32)},
    "a fingerprint that is text": {"fingerprint": np.array(["a"] * 36)},
    "a fingerprint of two tasks": {"fingerprint": np.ones((2, 36))},
    "a fingerprint of nothing": {"fingerprint": np.full((1, 36), np.nan)},
    "data without the first": {"y_5": np.ones(32), "drop": ("y_0",)},
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_files_are_refused_by_name(tmp_path, case):
    crafted(tmp_path / "crafted.npz", **CRAFTED[case])
    with pytest.raises(ValueError, match=r"crafted\.npz.*damaged"):
        cofem.load(tmp_path / "crafted.npz", PROBLEM.phi)


@pytest.mark.parametrize("bad", [None, 3])
def test_paths_that_are_none_are_named(bad):
    with pytest.raises(TypeError, match="path must be a path"):
        fitted().save(bad)
    with pytest.raises(TypeError, match="must be a path"):
        cofem.load(bad)
