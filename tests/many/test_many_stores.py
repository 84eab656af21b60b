"""fit_many: stores that resume, refuse what is not theirs, and are read by others."""

import inspect
import json

import numpy as np
import pytest
from many_cases import OPTIONS, assert_rows_equal, assert_same, place, problems

from cofem import fitting
from cofem.many import fit_many


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


def cut_off(kind, path):
    """Leave a store as a start that was killed before the arrays were all there."""
    begun = {"format": "cofem many 1", "begun": True}
    if kind == "folder":
        (path / "settings.json").write_text(json.dumps(begun))
        (path / "variance.npy").unlink()
    else:
        about = json.loads((path / "zarr.json").read_text())
        about["attributes"] = {"cofem": begun}
        (path / "zarr.json").write_text(json.dumps(about))


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_a_start_that_was_cut_off_begins_again(kind, tmp_path):
    phi, Y = problems(3)
    path = place(kind, tmp_path)
    fit_many(phi, Y, store=path, **OPTIONS)
    cut_off(kind, path)
    assert_same(fit_many(phi, Y, store=path, **OPTIONS), phi, Y, **OPTIONS)


@pytest.mark.parametrize("kind", ["folder", "zarr"])
@pytest.mark.parametrize("again", ["resume=False", "after a cut"])
def test_what_others_put_beside_the_results_stays(kind, again, tmp_path):
    phi, Y = problems(3)
    path = place(kind, tmp_path)
    fit_many(phi, Y, store=path, **OPTIONS)
    (path / "figure.png").write_text("a day's work")
    (path / "notes").mkdir()
    (path / "notes" / "mean.npy").write_text("mine")
    if again == "after a cut":
        cut_off(kind, path)
    many = fit_many(phi, 2 * Y, store=path, resume=again != "resume=False", **OPTIONS)
    assert_same(many, phi, 2 * Y, **OPTIONS)
    assert (path / "figure.png").read_text() == "a day's work"
    assert (path / "notes" / "mean.npy").read_text() == "mine"


@pytest.mark.parametrize("resume", [True, False])
def test_files_that_only_have_our_names_are_not_ours(resume, tmp_path):
    phi, Y = problems(2)
    path = tmp_path / "many"
    path.mkdir()
    np.save(path / "mean.npy", np.arange(5))
    with pytest.raises(FileExistsError, match="give a folder of its own"):
        fit_many(phi, Y, store=path, resume=resume, **OPTIONS)
    np.testing.assert_array_equal(np.load(path / "mean.npy"), np.arange(5))


@pytest.mark.parametrize("resume", [True, False])
def test_arrays_of_others_in_zarr_are_not_ours(resume, tmp_path):
    zarr = pytest.importorskip("zarr")
    phi, Y = problems(2)
    for name, make in {
        "array.zarr": lambda path: zarr.save_array(path, np.arange(5)),
        "group.zarr": lambda path: zarr.open_group(path, mode="w").create_array(
            "mean", data=np.arange(5)
        ),
    }.items():
        make(tmp_path / name)
        with pytest.raises(FileExistsError, match="give a folder of its own"):
            fit_many(phi, Y, store=tmp_path / name, resume=resume, **OPTIONS)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "group.zarr")["mean"][:], np.arange(5))


def test_a_folder_is_read_without_this_library_and_not_written_by_mistake(tmp_path):
    phi, Y = problems(3)
    many = fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    mean = np.load(tmp_path / "many" / "mean.npy", mmap_mode="r")
    np.testing.assert_array_equal(mean, many.mean)
    with pytest.raises(ValueError, match="read-only"):
        many.mean[0, 0] = 1.0
