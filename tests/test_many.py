"""fit_many: the numbers of single fits, whatever is killed on the way."""

import inspect
import json
import os
import re
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

import cofem
from cofem import fitting
from cofem.many import fit_many, running
from cofem.operators import DCT, Fourier, from_functions

STORES = ["memory", "folder", "zarr"]


def problems(count=12, n=20, d=30, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    Z = rng.normal(size=(count, d)) * (rng.random((count, d)) < 0.1)
    return phi, Z @ phi.T + 0.01 * rng.normal(size=(count, n))


OPTIONS = {"noise_precision": 1e4, "max_iter": 15, "tol": 0}


def place(kind, folder):
    if kind == "zarr":
        pytest.importorskip("zarr")
    return {"memory": None, "folder": folder / "many", "zarr": folder / "many.zarr"}[kind]


def assert_same(many, phi, Y, **options):
    for p, y in enumerate(Y):
        post = cofem.fit(phi, y, **options)
        np.testing.assert_array_equal(many.mean[p], post.mean)
        np.testing.assert_array_equal(many.variance[p], post.variance)
        np.testing.assert_array_equal(many.precision[p], post.precision)
        assert many.noise_precision[p] == post.noise_precision
        assert many.log_evidence[p] == post.log_evidence
        assert many.converged[p] == post.converged
        assert many.message[p] == post.message


NUMBERS = ("mean", "variance", "precision", "noise_precision", "log_evidence")


def assert_rows_equal(many, expected):
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(many, name)[:], getattr(expected, name)[:])


def assert_rows_close(many, expected):
    """The same to rounding: another process may add in another order."""
    for name in NUMBERS:
        there, wanted = getattr(many, name)[:], getattr(expected, name)[:]
        np.testing.assert_allclose(there, wanted, rtol=1e-9, atol=1e-12)


class Counted:
    """Counts the fits, and does something at one of them."""

    def __init__(self, monkeypatch, at=None, then=None):
        self.count, self.at, self.then = 0, at, then
        self.fit = fitting.fit
        monkeypatch.setattr(fitting, "fit", self)
        # Its options are read from the signature.
        self.__signature__ = inspect.signature(self.fit)

    def __call__(self, *arguments, **options):
        self.count += 1
        if self.count == self.at:
            raise self.then
        return self.fit(*arguments, **options)


# -- the numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES)
def test_rows_are_single_fits(kind, tmp_path):
    phi, Y = problems()
    many = fit_many(phi, Y, store=place(kind, tmp_path), **OPTIONS)
    assert_same(many, phi, Y, **OPTIONS)
    assert len(many) == 12
    assert many.failed == []
    np.testing.assert_array_equal(many.std, np.sqrt(many.variance[:]))
    assert repr(many) == "ManyPosteriors(12 problems × 30 unknowns; 0 converged, 0 failed)"


@pytest.mark.parametrize("kind", STORES)
def test_complex_data_and_single_precision(kind, tmp_path):
    phi, Y = problems(3)
    single = fit_many(
        phi.astype(np.float32), Y.astype(np.float32), store=place(kind, tmp_path), **OPTIONS
    )
    assert single.mean.dtype == single.variance.dtype == np.float32
    fourier = Fourier((16,), mask=np.arange(16) % 3 > 0)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(3, 10)) + 1j * rng.normal(size=(3, 10))
    (tmp_path / "two").mkdir()
    many = fit_many(fourier, data, store=place(kind, tmp_path / "two"), **OPTIONS)
    assert many.mean.dtype == np.complex128
    assert many.variance.dtype == np.float64
    assert_same(many, fourier, data, **OPTIONS)


def test_options_go_to_every_fit():
    phi, Y = problems(4)
    options = {"nonnegative": True, "method": cofem.CoFEM(n_probes=3), "max_iter": 5, "tol": 0}
    beta = np.array([1e2, 1e3, 1e4, 1e5])
    many = fit_many(phi, Y, noise_precision=beta, **options)
    for p in range(4):
        post = cofem.fit(phi, Y[p], noise_precision=beta[p], **options)
        np.testing.assert_array_equal(many.mean[p], post.mean)
    unknown = fit_many(phi, Y[:2], max_iter=5, tol=0)
    assert_same(unknown, phi, Y[:2], max_iter=5, tol=0)


def test_two_processes_give_the_same_numbers():
    phi, Y = problems(40)
    assert_rows_close(fit_many(phi, Y, n_jobs=2, **OPTIONS), fit_many(phi, Y, **OPTIONS))


def test_functions_of_the_user_travel_too():
    rows = np.arange(0, 32, 2)
    op = DCT(32, rows=rows)
    phi = from_functions(lambda z: op.forward(z), lambda y: op.adjoint(y), (16, 32), float)
    Y = np.random.default_rng(0).normal(size=(6, 16))
    assert_rows_close(fit_many(phi, Y, n_jobs=2, **OPTIONS), fit_many(phi, Y, **OPTIONS))


def test_problems_that_are_memory_mapped(tmp_path):
    phi, Y = problems(5)
    np.save(tmp_path / "y.npy", Y)
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    assert_rows_equal(fit_many(phi, mapped, **OPTIONS), fit_many(phi, Y, **OPTIONS))


# -- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 5, 11])
@pytest.mark.parametrize("kind", STORES)
def test_one_failing_problem_is_reported_and_the_others_finish(bad, kind, tmp_path):
    phi, Y = problems()
    Y[bad, 3] = np.nan
    with pytest.warns(UserWarning, match=rf"1 of 12 problems failed, the first of them {bad} "):
        many = fit_many(phi, Y, store=place(kind, tmp_path), **OPTIONS)
    assert many.failed == [(bad, "ValueError: y contains NaN or Inf")]
    assert np.all(np.isnan(many.mean[bad]))
    assert not many.converged[bad]
    others = np.delete(np.arange(12), bad)
    expected = fit_many(phi, Y[others], **OPTIONS)
    np.testing.assert_array_equal(many.mean[:][others], expected.mean)


def test_all_problems_fail():
    phi, Y = problems(3)
    with pytest.warns(UserWarning, match="3 of 3 problems failed"):
        many = fit_many(phi, np.full_like(Y, np.inf), **OPTIONS)
    assert [index for index, _ in many.failed] == [0, 1, 2]


def test_how_many_did_not_converge():
    phi, Y = problems()
    with pytest.warns(cofem.ConvergenceWarning, match="12 of 12 fits did not converge"):
        many = fit_many(phi, Y, noise_precision=1e4, max_iter=2)
    assert "max_iter=2" in many.message[3]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"Y": np.ones((3, 7))}, ValueError, "rows of 7 entries and phi has 20 rows"),
        ({"Y": np.ones((20, 3))}, ValueError, "transposed"),
        ({"Y": np.ones(20)}, ValueError, r"shape \(P, N\)"),
        ({"Y": np.ones((0, 20))}, ValueError, r"shape \(P, N\)"),
        ({"Y": [[1.0], [1.0, 2.0]]}, ValueError, "Y must"),
        ({"Y": np.full((2, 20), "a")}, TypeError, "Y must hold numbers"),
        ({"phi": "phi"}, TypeError, "phi must be"),
        ({"phi": [DCT(20), DCT(20)]}, TypeError, "one operator"),
        ({"store": 3}, TypeError, "store must be a path"),
        ({"store": "no/such/folder"}, FileNotFoundError, "store: the directory no/such"),
        ({"callback": print}, TypeError, "callback is an option of single fits"),
        ({"bogus": 1}, TypeError, "no option 'bogus'"),
        ({"method": "magic"}, ValueError, "method must be"),
        ({"tol": -1.0}, ValueError, "tol must be"),
        ({"noise_precision": [1.0, 2.0]}, ValueError, r"one per problem \(12\)"),
        ({"noise_precision": ["a"] * 12}, TypeError, "noise_precision"),
        ({"noise_precision": -1.0}, ValueError, "noise_precision must be positive"),
    ],
)
def test_bad_input_is_named_before_the_work(change, error, match):
    phi, Y = problems()
    arguments = {"phi": phi, "Y": Y, **OPTIONS, **change}
    with pytest.raises(error, match=match):
        fit_many(**arguments)


def test_tensors_are_refused_by_name():
    torch = pytest.importorskip("torch")
    phi, Y = problems()
    with pytest.raises(TypeError, match="Y must be a NumPy array, got one of torch"):
        fit_many(phi, torch.as_tensor(Y), **OPTIONS)


def test_without_zarr_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    phi, Y = problems(2)
    with pytest.raises(ImportError, match=r'pip install "cofem\[zarr\]"'):
        fit_many(phi, Y, store=tmp_path / "many.zarr", **OPTIONS)


# -- stores ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_an_interrupted_run_resumes(kind, tmp_path, monkeypatch):
    phi, Y = problems()
    path = place(kind, tmp_path)
    with monkeypatch.context() as patch:
        stopped = Counted(patch, at=8, then=KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            fit_many(phi, Y, store=path, **OPTIONS)
    with monkeypatch.context() as patch:
        rest = Counted(patch)
        many = fit_many(phi, Y, store=path, **OPTIONS)
    assert stopped.count == 8
    # Two are fitted first, then chunks of three: the third chunk was lost half way.
    assert 12 - 7 <= rest.count < 12
    assert_same(many, phi, Y, **OPTIONS)
    with monkeypatch.context() as patch:
        again = Counted(patch)
        assert_rows_equal(fit_many(phi, Y, store=path, **OPTIONS), many)
    assert again.count == 0


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_failed_problems_are_tried_again(kind, tmp_path, monkeypatch):
    phi, Y = problems()
    path = place(kind, tmp_path)
    with monkeypatch.context() as patch:
        Counted(patch, at=5, then=MemoryError("full"))
        with pytest.warns(UserWarning, match="MemoryError: full"):
            assert fit_many(phi, Y, store=path, **OPTIONS).failed == [(4, "MemoryError: full")]
    with monkeypatch.context() as patch:
        second = Counted(patch)
        many = fit_many(phi, Y, store=path, **OPTIONS)
    assert second.count == 1
    assert_same(many, phi, Y, **OPTIONS)


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_a_store_of_something_else_is_refused(kind, tmp_path):
    phi, Y = problems(4)
    path = place(kind, tmp_path)
    first = fit_many(phi, Y, store=path, **OPTIONS)
    kept = first.mean[:].copy()
    for what, call in {
        "Y": lambda: fit_many(phi, Y + 1e-12, store=path, **OPTIONS),
        "phi": lambda: fit_many(1.001 * phi, Y, store=path, **OPTIONS),
        "options": lambda: fit_many(phi, Y, store=path, **{**OPTIONS, "max_iter": 3}),
    }.items():
        with pytest.raises(ValueError, match=f"results for another {what}"):
            call()
    np.testing.assert_array_equal(fit_many(phi, Y, store=path, **OPTIONS).mean[:], kept)
    many = fit_many(phi, 2 * Y, store=path, resume=False, **OPTIONS)
    assert_same(many, phi, 2 * Y, **OPTIONS)


@pytest.mark.parametrize("kind", ["folder", "zarr"])
@pytest.mark.parametrize("resume", [True, False])
def test_files_of_others_are_never_touched(kind, resume, tmp_path):
    phi, Y = problems(2)
    path = place(kind, tmp_path)
    path.mkdir()
    (path / "thesis.txt").write_text("years")
    with pytest.raises(FileExistsError, match="holds other files"):
        fit_many(phi, Y, store=path, resume=resume, **OPTIONS)
    assert (path / "thesis.txt").read_text() == "years"
    file = tmp_path / f"file{path.suffix}"
    file.write_text("x")
    with pytest.raises(FileExistsError, match="is a file"):
        fit_many(phi, Y, store=file, **OPTIONS)


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_a_start_that_was_cut_off_begins_again(kind, tmp_path):
    phi, Y = problems(3)
    path = place(kind, tmp_path)
    fit_many(phi, Y, store=path, **OPTIONS)
    if kind == "folder":
        (path / "settings.json").unlink()
    else:
        about = json.loads((path / "zarr.json").read_text())
        about["attributes"] = {}
        (path / "zarr.json").write_text(json.dumps(about))
    assert_same(fit_many(phi, Y, store=path, **OPTIONS), phi, Y, **OPTIONS)


def test_a_folder_is_read_without_this_library_and_not_written_by_mistake(tmp_path):
    phi, Y = problems(3)
    many = fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    mean = np.load(tmp_path / "many" / "mean.npy", mmap_mode="r")
    np.testing.assert_array_equal(mean, many.mean)
    with pytest.raises(ValueError, match="read-only"):
        many.mean[0, 0] = 1.0


# -- deaths ------------------------------------------------------------------------------

CHILD = """
import sys
sys.path.insert(0, {tests!r})
from test_many import OPTIONS, fit_many, problems
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
    code = "import cofem.many.running as r; r.COMMIT_SECONDS = r.CHUNK_SECONDS = 0.0\n"
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
    if not marked.exists():
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
    monkeypatch.setattr(running, "COMMIT_SECONDS", 0.0)
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


def test_the_example_of_the_page_runs():
    page = Path(__file__).parents[1] / "docs" / "many.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(example.replace("cofem.fit_many", "fit_many"), {"fit_many": fit_many}, names)
    assert names["many"].mean.shape == (20, 64)
