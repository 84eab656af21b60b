"""What writing does after a killed process, and on a full disk."""

import errno
import os
import time

import pytest

from cofem.files import atomic_write
from cofem.files.writing import LEFT_BEHIND


def left_behind(folder, name, age):
    """A temporary file as a killed write leaves it, last written ``age`` seconds ago."""
    path = folder / f".{name}.0123abcd.tmp"
    path.write_bytes(b"half")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_the_next_write_removes_what_a_killed_one_left(tmp_path):
    old = left_behind(tmp_path, "p.npz", 2 * LEFT_BEHIND)
    other = left_behind(tmp_path, "q.npz", 2 * LEFT_BEHIND)
    with atomic_write(tmp_path / "p.npz") as stream:
        stream.write(b"whole")
    assert not old.exists()
    assert other.exists()  # another file's
    assert (tmp_path / "p.npz").read_bytes() == b"whole"


def test_a_write_that_may_still_go_on_is_left_alone(tmp_path):
    fresh = left_behind(tmp_path, "p.npz", LEFT_BEHIND / 2)
    with atomic_write(tmp_path / "p.npz") as stream:
        stream.write(b"whole")
    assert fresh.exists()


def test_names_with_brackets_are_no_patterns(tmp_path):
    own = left_behind(tmp_path, "p[1].npz", 2 * LEFT_BEHIND)
    other = left_behind(tmp_path, "p1.npz", 2 * LEFT_BEHIND)
    with atomic_write(tmp_path / "p[1].npz") as stream:
        stream.write(b"whole")
    assert not own.exists()
    assert other.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_says_what_to_do(tmp_path, monkeypatch, number, there):
    path = tmp_path / "p.npz"
    if there:
        path.write_bytes(b"before")

    def full(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    wanted = pytest.raises(OSError, match="free some space or choose another folder")
    with wanted as caught, atomic_write(path) as stream:
        stream.write(b"after")
    assert caught.value.errno == number
    assert str(path) in str(caught.value)
    assert ("is as it was" if there else "was not written") in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == (["p.npz"] if there else [])


def test_other_errors_stay_as_they_are(tmp_path, monkeypatch):
    def broken(descriptor):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    wanted = pytest.raises(OSError, match="broken")
    with wanted as caught, atomic_write(tmp_path / "p.npz") as stream:
        stream.write(b"after")
    assert "free some space" not in str(caught.value)
