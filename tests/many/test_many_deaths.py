"""fit_many: the same numbers, whatever is killed on the way."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from many_cases import OPTIONS, assert_rows_close, assert_same, place, problems

from cofem.many import committing, fit_many, running
from cofem.operators import from_functions

CHILD = """
import sys
sys.path.insert(0, {tests!r})
from many_cases import OPTIONS, problems
from cofem.many import fit_many
phi, Y = problems(60)
print("begun", flush=True)
fit_many(phi, Y, store={store!r}, **OPTIONS)
print("ended", flush=True)
"""


def run_and_kill(kind, path, kills):
    """Kill a run at random moments; whatever is marked done is whole, and the end is the same."""
    phi, Y = problems(60)
    expected = fit_many(phi, Y, **OPTIONS)
    # Small chunks, written all the time, so that a kill falls into a write.
    code = "from cofem.many import committing, running\n"
    code += "running.CHUNK_SECONDS = committing.COMMIT_SECONDS = 0.0\n"
    code += CHILD.format(tests=str(Path(__file__).parent), store=str(path))
    rng = np.random.default_rng(0)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(kills):
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert child.stdout.readline() == "begun\n"
        time.sleep(rng.uniform(0, 0.2))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        check_what_is_done(kind, path, expected)
    assert_rows_close(fit_many(phi, Y, store=path, **OPTIONS), expected)


def test_a_run_may_be_killed_at_any_moment(tmp_path):
    run_and_kill("folder", tmp_path / "many", kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_a_run_may_be_killed_again_and_again(kind, tmp_path):
    run_and_kill(kind, place(kind, tmp_path), kills=20)


def check_what_is_done(kind, path, expected):
    """Look at the files alone: rows that are marked must be there."""
    marked = path / ("settings.json" if kind == "folder" else "zarr.json")
    if not marked.exists() or "begun" in marked.read_text():
        return
    if kind == "folder":
        arrays = {name: np.load(path / f"{name}.npy") for name in ("state", "mean", "precision")}
    else:
        import zarr

        group = zarr.open_group(path, mode="r")
        if "cofem" not in group.attrs:
            return
        arrays = {name: group[name][:] for name in ("state", "mean", "precision")}
    done = arrays["state"] > 0
    for name in ("mean", "precision"):
        there, wanted = arrays[name][done], getattr(expected, name)[done]
        np.testing.assert_allclose(there, wanted, rtol=1e-9, atol=1e-12)


class KillOnce:
    """A forward product that ends its process, the first time it is called in a worker."""

    def __init__(self, phi, token, parent):
        self.phi, self.token, self.parent = phi, token, parent

    def __call__(self, z):
        if os.getpid() != self.parent and not self.token.exists():
            self.token.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return z @ self.phi.T


def test_a_local_worker_dies_and_nothing_is_lost(tmp_path):
    matrix, Y = problems(16)
    kill = KillOnce(matrix, tmp_path / "killed", os.getpid())
    phi = from_functions(kill, lambda y: y @ matrix, matrix.shape, float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # joblib tells that a worker stopped
        many = fit_many(phi, Y, n_jobs=2, **OPTIONS)
    assert (tmp_path / "killed").exists()
    assert_rows_close(many, fit_many(phi, Y, **OPTIONS))


def test_workers_that_always_die_are_an_error(tmp_path, monkeypatch):
    phi, Y = problems(12)
    calls = []

    def broken(*arguments):
        calls.append(arguments)
        raise OSError("no cluster")

    monkeypatch.setattr(running, "_parallel", broken)
    with pytest.raises(RuntimeError, match=r"failed 3 times in a row.*10 problems are left"):
        fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    assert len(calls) == 3
    monkeypatch.undo()
    assert_same(fit_many(phi, Y, store=tmp_path / "many", **OPTIONS), phi, Y, **OPTIONS)


def test_a_dask_worker_is_killed_half_way(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(running, "CHUNK_SECONDS", 0.05)
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 0.0)
    phi, Y = problems(80, 60, 120)
    options = {**OPTIONS, "max_iter": 40}
    expected = fit_many(phi, Y, **options)
    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        pids = list(client.run(os.getpid).values())

        def kill_half_way():
            state = tmp_path / "many" / "state.npy"
            for _ in range(3000):
                if state.exists() and 10 <= np.sum(np.load(state) > 0) < 60:
                    os.kill(pids[0], signal.SIGKILL)
                    killed.append(pids[0])
                    return
                time.sleep(0.01)

        killer = threading.Thread(target=kill_half_way)
        killer.start()
        with joblib.parallel_config("dask"):
            many = fit_many(phi, Y, store=tmp_path / "many", **options)
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()
    assert killed == pids[:1]
    assert many.failed == []
    assert_rows_close(many, expected)


@pytest.mark.slow
def test_the_scheduler_of_a_cluster_is_killed_half_way(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(running, "CHUNK_SECONDS", 0.05)
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 0.0)
    phi, Y = problems(80, 60, 120)
    options = {**OPTIONS, "max_iter": 40, "store": tmp_path / "many"}

    def kill_half_way(scheduler):
        state = tmp_path / "many" / "state.npy"
        for _ in range(3000):
            if state.exists() and 10 <= np.sum(np.load(state) > 0) < 60:
                scheduler.kill()
                return
            time.sleep(0.01)

    with cluster(distributed, tmp_path / "first.json") as scheduler:
        killer = threading.Thread(target=kill_half_way, args=[scheduler])
        killer.start()
        says = r"[0-9]+ problems are left .*many keeps the finished ones; start the cluster again"
        with joblib.parallel_config("dask"), pytest.raises(RuntimeError, match=says) as caught:
            fit_many(phi, Y, **options)
        killer.join()
        assert scheduler.wait() == -signal.SIGKILL
    kept = int(np.sum(np.load(tmp_path / "many" / "state.npy") > 0))
    assert 10 <= kept < 80
    assert f" {80 - kept} problems are left" in str(caught.value)  # nothing that came is lost

    counted = []
    fit_batch = running.fit_rows
    monkeypatch.setattr(
        running, "fit_rows", lambda op, y, o: counted.append(len(y)) or fit_batch(op, y, o)
    )
    many = fit_many(phi, Y, **options)  # what the error says, on this machine
    assert sum(counted) == 80 - kept
    assert many.failed == []
    assert_rows_close(many, fit_many(phi, Y, **{**options, "store": None}))


@contextlib.contextmanager
def cluster(distributed, file, workers=2):
    """A scheduler and workers, each a process of its own on this machine, and a client."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def start(what, *words):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--scheduler-file", str(file), *words],
            cwd=file.parent, env=environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    processes = [start("scheduler", "--port", "0")]
    words = ("--nthreads", "1", "--no-nanny", "--death-timeout", "10")
    try:
        processes += [start("worker", *words) for _ in range(workers)]
        while not file.exists():
            time.sleep(0.05)
        # The client waits for so long for a scheduler that is gone.
        client = distributed.Client(scheduler_file=str(file), timeout="3s")
        client.wait_for_workers(workers, timeout=60)
        yield processes[0]
        client.close(timeout=1)
    finally:
        for process in processes:
            process.kill()
            process.wait()
