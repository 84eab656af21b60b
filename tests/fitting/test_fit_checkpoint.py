"""Checkpoints: a fit that was killed ends where the unbroken one does."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import cofem
from cofem import simulate


class KilledError(Exception):
    pass


def stop_at(iteration):
    def callback(state):
        if state.iteration == iteration:
            raise KilledError

    return callback


def problem(dtype=np.float64):
    made = simulate.dct(256, seed=1)
    return made.phi, made.y.astype(dtype)


@pytest.mark.parametrize("method", ["cofem", "em", "woodbury"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_resumed_fit_is_the_unbroken_one(tmp_path, method, dtype):
    phi, y = problem(dtype)
    options = {"noise_precision": 1e4, "method": method, "max_iter": 35, "tol": 0}
    whole = cofem.fit(phi, y, **options)
    path = tmp_path / "state.npz"
    for iteration in (7, 18, 33):  # before the first write, and twice after
        with pytest.raises(KilledError):
            cofem.fit(phi, y, callback=stop_at(iteration), checkpoint=path, **options)
    seen = []
    again = cofem.fit(
        phi, y, checkpoint=path, callback=lambda s: seen.append(s.iteration), **options
    )
    assert seen == list(range(31, 36))
    for name in ("mean", "variance", "precision", "variance_error"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    for name in ("iteration", "change", "cg_steps"):
        assert again.history[name] == whole.history[name]
    # Setting up again costs products again, and they are counted.
    assert again.history["products"][-1] >= whole.history["products"][-1]
    assert np.all(np.diff(again.history["seconds"]) >= 0)


def test_the_noise_is_not_looked_for_twice(tmp_path):
    phi, y = problem()
    path = tmp_path / "state.npz"
    whole = cofem.fit(phi, y, max_iter=15, tol=0)
    with pytest.raises(KilledError):
        cofem.fit(phi, y, max_iter=15, tol=0, checkpoint=path, callback=stop_at(2))
    again = cofem.fit(phi, y, max_iter=15, tol=0, checkpoint=path)
    assert again.noise_precision == whole.noise_precision
    assert again.history["products"] == whole.history["products"]
    np.testing.assert_array_equal(again.mean, whole.mean)


def test_joint_tasks_torch_and_sparsifiers(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    phi, y = rng.standard_normal((20, 30)), rng.standard_normal((2, 20))
    R = cofem.operators.FiniteDifference((30,), 0)
    cases = {
        "joint": ((phi, y), {}),
        "torch": ((torch.from_numpy(phi), torch.from_numpy(y[0])), {}),
        "sparsifier": ((phi, y[0]), {"sparsifier": R}),
    }
    for name, (data, extra) in cases.items():
        options = {"noise_precision": 10.0, "max_iter": 14, "tol": 0, **extra}
        whole = cofem.fit(*data, **options)
        path = tmp_path / f"{name}.npz"
        with pytest.raises(KilledError):
            cofem.fit(*data, checkpoint=path, callback=stop_at(12), **options)
        again = cofem.fit(*data, checkpoint=path, **options)
        assert type(again.mean) is type(whole.mean)
        np.testing.assert_array_equal(np.asarray(again.mean), np.asarray(whole.mean))


def test_a_file_of_another_problem_is_refused(tmp_path):
    phi, y = problem()
    path = tmp_path / "state.npz"
    cofem.fit(phi, y, noise_precision=1e4, max_iter=12, tol=0, checkpoint=path)
    for change in (
        {"y": y + 1}, {"noise_precision": 10.0}, {"seed": 1}, {"method": "em"},
        {"nonnegative": True}, {"phi": cofem.operators.DCT(256, np.arange(len(y)))},
    ):  # fmt: skip
        data = {"phi": phi, "y": y, "noise_precision": 1e4, "checkpoint": path, **change}
        with pytest.raises(ValueError, match="another problem"):
            cofem.fit(data.pop("phi"), data.pop("y"), max_iter=12, tol=0, **data)


def test_bad_checkpoints_are_named(tmp_path):
    phi, y = problem()
    path = tmp_path / "state.npz"
    for content in (b"", b"PK", b"\x93NUMPY", b"x" * 1000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a checkpoint"):
            cofem.fit(phi, y, noise_precision=1e4, checkpoint=path)
        assert path.read_bytes() == content
    with pytest.raises(TypeError, match="checkpoint must be a path"):
        cofem.fit(phi, y, noise_precision=1e4, checkpoint=3)
    with pytest.raises(ValueError, match='"vi" cannot be resumed'):
        cofem.fit(phi, y, noise_precision=1e4, checkpoint=tmp_path / "v.npz", method="vi")


# Runs the fit and kills its own process at a stage of one of its writes.
SCRIPT = """
import io, os, signal, sys
import numpy as np
import cofem
from cofem import simulate

path, stage, writes_before = sys.argv[1], sys.argv[2], int(sys.argv[3])
savez, fsync, replace = np.savez, os.fsync, os.replace
done = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def torn_savez(stream, **arrays):
    if stage != "write" or done < writes_before:
        return savez(stream, **arrays)
    whole = io.BytesIO()
    savez(whole, **arrays)
    stream.write(whole.getvalue()[: whole.tell() // 2])
    stream.flush()
    fsync(stream.fileno())
    die()

def last_fsync(descriptor):
    if stage == "fsync" and done == writes_before:
        die()
    fsync(descriptor)

def last_replace(source, target):
    global done
    if stage == "before rename" and done == writes_before:
        die()
    replace(source, target)
    if stage == "after rename" and done == writes_before:
        die()
    done += 1

np.savez, os.fsync, os.replace = torn_savez, last_fsync, last_replace
made = simulate.dct(256, seed=1)
cofem.fit(made.phi, made.y, noise_precision=1e4, method="em", max_iter=35, tol=0, checkpoint=path)
"""
OPTIONS = {"noise_precision": 1e4, "method": "em", "max_iter": 35, "tol": 0}


@pytest.fixture(scope="module")
def unbroken():
    return cofem.fit(*problem(), **OPTIONS)


@pytest.mark.parametrize(
    ("stage", "writes_before", "resumed_at"),
    [
        ("write", 0, 1), ("write", 1, 11), ("fsync", 1, 11), ("before rename", 1, 11),
        ("after rename", 1, 21), ("after rename", 2, 31),
    ],
)  # fmt: skip
def test_killed_inside_a_write(tmp_path, unbroken, stage, writes_before, resumed_at):
    path = tmp_path / "state.npz"
    command = [sys.executable, "-c", SCRIPT, str(path), stage, str(writes_before)]
    process = subprocess.run(command, env=os.environ, timeout=120)
    assert process.returncode == -signal.SIGKILL, "it must have come to that stage"
    assert path.exists() == (resumed_at > 1)
    seen = []
    again = cofem.fit(
        *problem(), checkpoint=path, callback=lambda s: seen.append(s.iteration), **OPTIONS
    )
    assert seen == list(range(resumed_at, 36))
    np.testing.assert_array_equal(again.mean, unbroken.mean)
    np.testing.assert_array_equal(again.variance, unbroken.variance)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch, unbroken, call):
    path, real, calls = tmp_path / "state.npz", getattr(os, call), []

    def full(*arguments):
        calls.append(call)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        cofem.fit(*problem(), checkpoint=path, **OPTIONS)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"], "no temporary file is left"
    seen = []
    again = cofem.fit(
        *problem(), checkpoint=path, callback=lambda s: seen.append(s.iteration), **OPTIONS
    )
    assert seen[0] == 11
    np.testing.assert_array_equal(again.mean, unbroken.mean)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize("leads_to", ["disk/state.npz", "state.npz"])
def test_a_link_that_leads_to_no_file_is_no_new_start(tmp_path, leads_to):
    # A disk that is not mounted: the state may be there, and a fit that begins anew would hide it.
    phi, y = problem()
    path = tmp_path / "state.npz"
    path.symlink_to(tmp_path / leads_to)
    options = {"noise_precision": 1e4, "max_iter": 11, "tol": 0, "checkpoint": path}
    (tmp_path / "disk").mkdir()
    with pytest.raises(FileNotFoundError, match=r"^checkpoint: .*state\.npz is a link that leads"):
        cofem.fit(phi, y, **options)
    assert path.is_symlink()
    assert not any((tmp_path / "disk").iterdir())
    path.unlink()
    path.symlink_to(tmp_path / "disk" / "state.npz")
    cofem.fit(phi, y, **{**options, "checkpoint": tmp_path / "disk" / "state.npz"})
    assert (tmp_path / "disk" / "state.npz").is_file()
    seen = []
    cofem.fit(phi, y, callback=lambda s: seen.append(s.iteration), **options)
    assert seen == [11]  # and a link to a file is followed
