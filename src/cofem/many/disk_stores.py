"""Stores on a disk: a folder of mapped .npy files, or a zarr group."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np

from cofem.files import atomic_write, check_writable, explained_if_full, only_writer, parsed
from cofem.many.inputs import refuse_another
from cofem.many.layout import NAMES, Layout, Outcome
from cofem.many.stores import MemoryStore, Store

FORMAT = "cofem many 1"
# Bytes of one chunk of a zarr array.
ZARR_CHUNK = 1 << 20

# The settings before the arrays exist; they mark the folder as ours.
BEGUN = {"format": FORMAT, "begun": True}
ANOTHER = "give another folder"


class _DiskStore(Store):
    """A folder with settings that name its problems, so that only the same run can be resumed."""

    def __init__(self, path: Path, fingerprint: dict[str, Any], resume: bool) -> None:
        super().__init__()
        self.path, self.fingerprint = path, fingerprint
        if path.exists() and not path.is_dir():
            raise FileExistsError(f"store: {path} is a file, expected a folder")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"store: the directory {path.parent} does not exist")
        if not path.exists():
            check_writable(path, "store")
            return
        self._lock.enter_context(only_writer(path, "store"))
        try:
            self._find(resume)
            if self.layout is None:  # to be made: said now, not after the first fits
                check_writable(path / "settings.json", "store")
        except BaseException:
            self._lock.close()
            raise

    def _find(self, resume: bool) -> None:
        """Open what an earlier run left, or make place for a new one."""
        path = self.path
        if not any(path.iterdir()):
            return
        settings = self._read_settings()
        if settings is None:
            if not self._is_bare():
                raise FileExistsError(
                    f"store: {path} holds other files than those "
                    "of fit_many; give a folder of its own"
                )
            return
        if settings.get("begun") or not resume:  # a start that was interrupted, or resume=False
            self._clear()
            return
        try:
            theirs, layout = settings["fingerprint"], Layout(**settings["layout"])
            layout.arrays()
            theirs.items()
        except (KeyError, TypeError, ValueError, AttributeError, SyntaxError):  # ",f4" as dtype
            raise ValueError(f"store: the settings of {path} are damaged; {ANOTHER}") from None
        refuse_another(path, theirs, self.fingerprint)
        self.layout = layout
        self._open()

    @property
    def keeps(self) -> str:
        """What to do when a run ends early, for its error."""
        return f"{self.path} keeps the finished ones;"

    def create(self, layout: Layout) -> None:
        """Make the arrays, alone, and only then the settings: without them nothing is done."""
        if not self.path.exists():
            self.path.mkdir()
            self._lock.enter_context(only_writer(self.path, "store"))
        try:
            with explained_if_full(f"{self.path} was not begun"):
                self._create(layout)
        except BaseException:
            self.layout, self.arrays = None, {}  # half of the arrays are no store
            raise

    def write(self, outcomes: Mapping[int, Outcome]) -> None:
        """Store results; those that do not fit stay pending."""
        with explained_if_full(f"{self.path} keeps what was stored before"):
            super().write(outcomes)

    @abstractmethod
    def _create(self, layout: Layout) -> None: ...

    def _settings(self) -> dict[str, Any]:
        assert self.layout is not None
        return {
            "format": FORMAT, "layout": asdict(self.layout), "fingerprint": self.fingerprint,
        }  # fmt: skip

    @abstractmethod
    def _read_settings(self) -> dict[str, Any] | None: ...

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _is_bare(self) -> bool:
        """Whether the folder holds only what a run leaves that was killed at its start."""

    @abstractmethod
    def _clear(self) -> None:
        """Remove our arrays, and nothing else: others may have put files beside them."""


@final
class FolderStore(_DiskStore):
    """Memory-mapped .npy files, which NumPy opens without this library."""

    def _create(self, layout: Layout) -> None:
        self._write_settings(BEGUN)
        self.layout = layout
        for name, (shape, dtype) in layout.arrays().items():
            file = self.path / f"{name}.npy"
            self.arrays[name] = np.lib.format.open_memmap(file, "w+", dtype, shape)
            _take_space(file)
        self.flush()
        self._write_settings(self._settings())

    def _write_settings(self, settings: dict[str, Any]) -> None:
        with atomic_write(self.path / "settings.json", "w") as stream:
            json.dump(settings, stream, indent=1)

    def flush(self) -> None:
        """Wait until the pages are on the disk."""
        for array in self.arrays.values():
            array.flush()

    def readable(self, name: str) -> Any:
        """Return a view that refuses to be written."""
        view = self.arrays[name].view()
        view.flags.writeable = False
        return view

    def _open(self) -> None:
        assert self.layout is not None
        for name, (shape, dtype) in self.layout.arrays().items():
            file = self.path / f"{name}.npy"
            _refuse_what_is_no_file(file)
            array = parsed(file, "store", partial(np.lib.format.open_memmap, file, "r+"))
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(
                    f"store: {name}.npy holds {array.shape} {array.dtype}, "
                    f"expected {shape} {dtype}; resume=False starts again"
                )
            self.arrays[name] = array

    def _read_settings(self) -> dict[str, Any] | None:
        file = self.path / "settings.json"
        _refuse_what_is_no_file(file)
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            raise ValueError(f"store: {file} is damaged; {ANOTHER}") from None
        return found if isinstance(found, dict) and found.get("format") == FORMAT else None

    def _is_bare(self) -> bool:
        return all(file.name.startswith(".settings.json.") for file in self.path.iterdir())

    def _clear(self) -> None:
        self._write_settings(BEGUN)
        for name in NAMES:
            (self.path / f"{name}.npy").unlink(missing_ok=True)


@final
class ZarrStore(_DiskStore):
    """A zarr group with one array per name, in chunks of a megabyte."""

    def _create(self, layout: Layout) -> None:
        group = _zarr().open_group(self.path, mode="a", attributes={"cofem": BEGUN})
        group.attrs["cofem"] = BEGUN  # if the group was there
        self.layout = layout
        for name, (shape, dtype) in layout.arrays().items():
            row = max(1, dtype.itemsize * int(np.prod(shape[1:])))
            chunks = (min(shape[0], max(1, ZARR_CHUNK // row)), *shape[1:])
            self.arrays[name] = group.create_array(
                name, shape=shape, dtype=dtype, chunks=chunks, overwrite=True
            )
        group.attrs["cofem"] = self._settings()

    def flush(self) -> None:
        """Nothing to do: zarr replaces whole files."""

    def _open(self) -> None:
        assert self.layout is not None
        group, names = _zarr().open_group(self.path, mode="r+"), self.layout.arrays()
        self.arrays = parsed(
            self.path / "zarr.json", "store", lambda: {name: group[name] for name in names}
        )

    def _read_settings(self) -> dict[str, Any] | None:
        file = self.path / "zarr.json"
        _refuse_what_is_no_file(file)
        if not file.exists():
            return None
        zarr = _zarr()
        try:
            found = dict(zarr.open_group(self.path, mode="r").attrs).get("cofem")
        except Exception:  # no group: an array, or something that its parser fails at in any way
            return None
        return found if isinstance(found, dict) and found.get("format") == FORMAT else None

    def _is_bare(self) -> bool:
        # What zarr calls the file until it is whole.
        left = [*self.path.iterdir()]
        return all(f.name.startswith("zarr.") and f.suffix == ".partial" for f in left)

    def _clear(self) -> None:
        group = _zarr().open_group(self.path, mode="r+")
        group.attrs["cofem"] = BEGUN
        for name in NAMES:
            if name in group:
                del group[name]


def _refuse_what_is_no_file(file: Path) -> None:
    """Refuse a pipe, which would wait for ever, and a device, which may never end."""
    if file.exists() and not file.is_file():
        raise ValueError(f"store: {file} is not a file; {ANOTHER}")


def _take_space(file: Path) -> None:
    """Take the disk's space for a mapped file now.

    A mapped page for which the disk has no place later ends the process without a word.
    """
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        return
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.posix_fallocate(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError(
            "store: a path that ends in .zarr needs zarr: pip install zarr, or give a folder"
        ) from None
    return zarr


def open_store(store: Any, fingerprint: dict[str, Any], resume: bool) -> Store:
    """Return the store that a path names: .zarr is a zarr group, anything else a folder."""
    if store is None:
        return MemoryStore()
    try:
        path = Path(store)
    except TypeError:
        raise TypeError(f"store must be a path or None, got {type(store).__name__}") from None
    kind = ZarrStore if path.suffix == ".zarr" else FolderStore
    return kind(path, fingerprint, resume)
