"""Feeds readers with bytes that atheris (libFuzzer) makes up: ``fuzz_child.py``, told by its input.

A line of the input is a JSON list: the reader's name, its folder, and libFuzzer's arguments. Every
reader runs in a fork of this process, which has imported everything; its exit code is printed, and
what libFuzzer says goes to the file ``log`` in the folder.

What a reader may do with a bad file: return something, or raise ValueError or OSError with one
line of text. Everything else is written down, once for every place, and the search goes on. A
native crash, a hang of five seconds or memory above the limit ends the process.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import importlib.util
import io
import json
import os
import resource
import shutil
import sys
import traceback
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import atheris

import fuzz_readers

MEMORY = 1 << 29  # bytes that a reader may take above what the process has at its start
INSTRUMENTED = [
    "cofem.files", "cofem.calcium.files", "cofem.calcium.storage", "cofem.mri.files",
    "cofem.result.storage", "cofem.result.storage_checks", "cofem.result.storage_marginals",
    "cofem.many.disk_stores", "cofem.many.inputs", "cofem.learning.checkpoint",
    "cofem.paper.trialfile",
]  # fmt: skip


def modules() -> tuple[list[str], list[str]]:
    """Return our modules that are instrumented, and the others.

    Of what is to be included atheris looks at the first word alone, and numba cannot compile an
    instrumented function: so the others are excluded one by one.
    """
    (root,) = importlib.util.find_spec("cofem").submodule_search_locations  # type: ignore
    names: tuple[list[str], list[str]] = ([], [])
    for file in sorted(Path(root).rglob("*.py")):
        parts = file.relative_to(Path(root).parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        watched = any(f"{name}.".startswith(f"{included}.") for included in INSTRUMENTED)
        names[not watched].append(name)
    return names


WATCHED, OTHERS = modules()
with atheris.instrument_imports(include=["cofem"], exclude=OTHERS):
    for watched in WATCHED:  # all now: what is imported late would not be instrumented
        with contextlib.suppress(ImportError):
            importlib.import_module(watched)


def limit_memory() -> None:
    """Refuse allocations far above what the process has now."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


class Target:
    """Writes the bytes to a file, reads it, and keeps a list of what came out wrong."""

    def __init__(self, name: str, folder: Path) -> None:
        self.reader, self.folder = fuzz_readers.READERS[name], folder
        self.found: dict[str, str] = {}
        self.runs = 0
        (self.real,) = (
            [p for p in (folder / "real").iterdir() if p.is_dir()] if self.reader.member else [None]
        )

    def __call__(self, data: bytes) -> None:
        """Read one file."""
        path = self._place(data)
        self.runs += 1
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                self.reader.read(path)
        except (ValueError, OSError) as error:
            text = str(error)
            if "\n" in text or len(text) <= 10:
                self._note(f"{type(error).__name__} of several lines or none: {text[:60]!r}", data)
        except Exception as error:
            self._note(f"{type(error).__name__}: {str(error)[:100]}", data)

    def _place(self, data: bytes) -> Path:
        if self.real is None:
            path = self.folder / f"input{self.reader.ending}"
            path.write_bytes(data)
            return path
        path = self.folder / f"input{self.real.suffix}"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.real, path)
        (path / self.reader.member).write_bytes(data)
        return path

    def _note(self, what: str, data: bytes) -> None:
        frames = traceback.extract_tb(sys.exc_info()[2])
        own = [f for f in frames if "/cofem/" in f.filename]
        place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        key = f"{place} {what.split(':')[0]}"
        if key not in self.found:
            self.found[key] = what
            (self.folder / f"finding{len(self.found)}").write_bytes(data)
            listed = [f"{place}: {text}" for place, text in self.found.items()]
            (self.folder / "findings.json").write_text(json.dumps(listed))


def mutate_packed(kind: str, data: bytes, size: int) -> bytes:
    """Change the content of an archive, so that its checksums hold."""
    try:
        if kind == "gzip":
            return gzip.compress(atheris.Mutate(gzip.decompress(data), size))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        changed = sorted(members)[sum(data) % len(members)]
        members[changed] = atheris.Mutate(members[changed], len(members[changed]) + 64)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return stream.getvalue()
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, RuntimeError,
            NotImplementedError, ZeroDivisionError, ValueError):  # fmt: skip
        return bytes(atheris.Mutate(data, size))


def run(name: str, folder: Path, arguments: list[str]) -> None:
    """Fuzz one reader until libFuzzer ends the process."""
    reader = fuzz_readers.READERS[name]
    target = Target(name, folder)
    for seed in (folder / "corpus").iterdir():  # imports what is imported late
        target(seed.read_bytes())
    limit_memory()

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        packed = reader.packed and seed % 4  # the rest changes the archive itself
        changed = mutate_packed(reader.packed, data, size) if packed else atheris.Mutate(data, size)
        return bytes(changed[:size])

    options: dict[str, Any] = {"custom_mutator": mutate} if reader.packed else {}
    atheris.Setup([sys.argv[0], *arguments], target, **options)
    atheris.Fuzz()


def main() -> None:
    """Fork for every line."""
    for line in sys.stdin:
        name, folder, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            log = os.open(Path(folder, "log"), os.O_WRONLY | os.O_CREAT)
            for stream in (1, 2):
                os.dup2(log, stream)
            try:
                fuzz_readers.corpus(name, Path(folder))
                run(name, Path(folder), arguments)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
