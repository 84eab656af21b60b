"""fit_many on a full disk, and with two processes on one store."""

import errno
import os

import numpy as np
import pytest
from many_cases import OPTIONS, assert_same, place, problems

from cofem.files import only_writer
from cofem.many import committing, disk_stores, fit_many, running, stores


def full(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("kind", ["folder", "zarr"])
@pytest.mark.parametrize("good_writes", [0, 1, 4])
def test_a_full_disk_ends_the_run_at_once_and_says_so(kind, good_writes, tmp_path, monkeypatch):
    # Once: a second try would go well. It was taken for a worker that died, and tried again.
    phi, Y = problems(8)
    path = place(kind, tmp_path)
    monkeypatch.setattr(running, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 0.0)
    write, writes = stores.Store.write, []

    def once_full(self, outcomes):
        writes.append(len(outcomes))
        if len(writes) == good_writes + 1:
            full()
        write(self, outcomes)

    monkeypatch.setattr(stores.Store, "write", once_full)
    with pytest.raises(OSError, match="keeps what was stored before; free some space") as caught:
        fit_many(phi, Y, store=path, **OPTIONS)
    assert caught.value.errno == errno.ENOSPC
    assert len(writes) == good_writes + 2  # and what waited, on the way out
    monkeypatch.undo()
    assert_same(fit_many(phi, Y, store=path, **OPTIONS), phi, Y, **OPTIONS)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="not on this system")
def test_the_space_of_mapped_files_is_taken_before_the_first_row(tmp_path, monkeypatch):
    # Without it the first page without a place on the disk would be a SIGBUS.
    phi, Y = problems(3)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="was not begun; free some space"):
        fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    monkeypatch.undo()
    taken = []
    monkeypatch.setattr(disk_stores, "_take_space", lambda file: taken.append(file.name))
    many = fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    assert {"mean.npy", "state.npy"} <= set(taken)
    assert many.failed == []


def test_a_disk_that_is_full_when_the_arrays_are_made(tmp_path, monkeypatch):
    phi, Y = problems(3)
    made, take = [], disk_stores._take_space

    def half(file):
        made.append(file)
        full() if len(made) == 4 else take(file)

    monkeypatch.setattr(disk_stores, "_take_space", half)
    with pytest.raises(OSError, match="was not begun; free some space"):
        fit_many(phi, Y, store=tmp_path / "many", **OPTIONS)
    monkeypatch.undo()
    assert_same(fit_many(phi, Y, store=tmp_path / "many", **OPTIONS), phi, Y, **OPTIONS)


@pytest.mark.parametrize("kind", ["folder", "zarr"])
def test_a_store_has_one_writer(kind, tmp_path):
    phi, Y = problems(4)
    path = place(kind, tmp_path)
    first = fit_many(phi, Y, store=path, **OPTIONS)
    with only_writer(path), pytest.raises(BlockingIOError, match="store: another run is writing"):
        fit_many(phi, Y, store=path, **OPTIONS)
    again = fit_many(phi, Y, store=path, **OPTIONS)  # the first has let go
    np.testing.assert_array_equal(again.mean[:], first.mean[:])
    with pytest.raises(ValueError, match="Y"):
        fit_many(phi, 2 * Y, store=path, **OPTIONS)  # refused, and lets go
    fit_many(phi, Y, store=path, **OPTIONS)


def test_a_zarr_store_killed_at_its_first_write_begins_again(tmp_path):
    pytest.importorskip("zarr")
    phi, Y = problems(3)
    path = tmp_path / "many.zarr"
    path.mkdir()
    (path / "zarr.0123456789abcdef0123456789abcdef.partial").write_bytes(b'{"zarr_')
    assert_same(fit_many(phi, Y, store=path, **OPTIONS), phi, Y, **OPTIONS)
    other = tmp_path / "other.zarr"
    other.mkdir()
    (other / "notes.partial").touch()
    with pytest.raises(FileExistsError, match="holds other files"):
        fit_many(phi, Y, store=other, **OPTIONS)
