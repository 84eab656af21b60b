"""Folders that cannot be written to: said before the work, with the folder's name."""

import ctypes
import importlib
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import cofem
from cofem.cli import app
from cofem.many import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="root's rights are Linux's")
# capabilities(7): version 3 of the call, and what lets root pass over the bits of a folder.
VERSION, OVERRIDE = 0x20080522, (1 << 1) | (1 << 2)


class WorkError(Exception):
    """The work began."""


def never(*arguments, **options):
    raise WorkError


@pytest.fixture
def locked(tmp_path):
    """A folder that this thread cannot write to, not even as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, rights) == 0
    held = rights[0]
    rights[0] = held & ~OVERRIDE
    assert libc.capset(header, rights) == 0
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    rights[0] = held
    assert libc.capset(header, rights) == 0


def assert_named(text, folder):
    assert str(folder) in text
    assert "Permission denied" in text
    assert "\n" not in text.strip()


def refused(folder, *words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("cofem: error: output: cannot write ")
    assert_named(result.stderr, folder)
    assert not any(folder.iterdir())


def test_the_folder_cannot_be_written_to(locked):
    with pytest.raises(PermissionError):  # else the tests below would show nothing
        (locked / "file").touch()


@pytest.mark.parametrize("name", ["many", "many.zarr", "empty"])
def test_fit_many(locked, monkeypatch, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    store = locked if name == "empty" else locked / name  # or the store's own folder
    monkeypatch.setattr(running, "fit_rows", never)
    phi = np.random.default_rng(0).normal(size=(6, 8))
    with pytest.raises(OSError, match=r"^store: cannot write ") as caught:
        cofem.fit_many(phi, phi[:, :2].T, noise_precision=1e4, store=store)
    assert_named(str(caught.value), locked)
    assert not any(locked.iterdir())


def test_calcium(locked, tmp_path, monkeypatch):
    monkeypatch.setattr("cofem.calcium.deconvolve", never)
    np.save(tmp_path / "dff.npy", np.random.default_rng(0).normal(size=(2, 100)))
    words = ("calcium", tmp_path / "dff.npy", "--framerate", 30, "-o")
    refused(locked, *words, locked / "s.npz")
    monkeypatch.chdir(locked)
    refused(locked, *words, "s.npz")


def test_mri(locked, tmp_path, monkeypatch):
    monkeypatch.setattr("cofem.mri.reconstruct", never)
    np.save(tmp_path / "k.npy", np.ones((2, 8, 8), complex))
    refused(locked, "mri", tmp_path / "k.npy", "-o", locked / "i.npz")


@pytest.mark.parametrize("target", ["fig1", "fig2", "fig3", "calcium", "mri"])
def test_paper(locked, tmp_path, monkeypatch, target):
    if target.startswith("fig"):
        figure = importlib.import_module(f"cofem.paper.figures.{target}")
        monkeypatch.setattr(figure, "run_figure", never)
    else:
        monkeypatch.setattr(importlib.import_module(f"cofem.paper.{target}"), "run", never)
    refused(locked, "paper", target, "-o", locked, "--quick", "--data", tmp_path)
