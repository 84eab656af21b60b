"""Compiled code that cannot be kept is compiled and used all the same."""

import errno
import os

import pytest

from cofem.solvers.compiled import compiled

numba = pytest.importorskip("numba")


def test_a_full_disk_for_the_cache_does_not_end_a_call(tmp_path, monkeypatch):
    from numba.core import caching

    tried = []

    def full(*arguments):
        tried.append(arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled
    def twice(x):
        return 2 * x

    assert twice(3) == 6
    assert len(tried) == 1
    plain = numba.njit(cache=True)(twice.py_func)
    with pytest.raises(OSError, match="No space"):  # what numba does by itself
        plain(3)


def test_code_is_kept_where_there_is_a_place(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled
    def thrice(x):
        return 3 * x

    assert thrice(2) == 6
    assert len(list(tmp_path.rglob("*.nbc"))) == 1
