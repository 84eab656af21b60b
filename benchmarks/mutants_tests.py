"""Run chosen tests in forked processes, with a copy of cofem that holds a mutant.

Importing the libraries, cofem and the tests is paid once: a session of pytest collects the tests,
and every mutant is tried in a process forked from it, in which the code of one function has been
replaced.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutants_made import Mutant, Place

ROOT = Path(__file__).resolve().parent.parent
# Imported once, before every session. No plugin of pytest may be among them (hypothesis is one):
# pytest warns of it, and a warning is an error.
LIBRARIES = (
    "numpy", "scipy.fft", "scipy.linalg", "scipy.sparse.linalg", "scipy.stats", "numba", "pytest",
    "torch", "array_api_strict", "pandas", "h5py", "pywt",
)  # fmt: skip
# A test may take as many times its usual processor seconds, and so many more.
SLOWER, MORE, COMPILING = 5, 10, 90
# One that waits for something that never comes takes none: so many seconds by the clock.
BY_THE_CLOCK = 300
MOST_MEMORY = 6 * 2**30
NO_RUN = 70  # exit status of a process that did not come to its tests
TOO_SLOW = (signal.SIGPROF, signal.SIGALRM)
IS_FUNCTION = 0x2  # CO_NEWLOCALS: the code of a function, not of a class


def make_copy(folder: Path) -> None:
    """Copy the sources: mutants are made there, never in the repository."""
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "conftest.py"):
        shutil.copy2(ROOT / part, folder / part)


def copy_tests(folder: Path) -> None:
    """Copy the tests as they are now; unchanged files keep their times, and what is cached."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored, dirs_exist_ok=True)


def preload() -> None:
    """Import the libraries of the tests, as far as they are installed; never cofem."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def limit(seconds: float) -> None:
    """End this process after so many processor seconds, or many more by the clock; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(BY_THE_CLOCK + int(seconds) if seconds else 0)


def in_child(work: Callable[[int], int]) -> tuple[str, str]:
    """Run ``work`` in a forked process; return "passed", "failed" or "too slow", and the last test.

    ``work`` is given a pipe into which the names of the tests are written as they begin.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setpgid(0, 0)
        code = NO_RUN
        try:
            code = work(write)
        except Exception as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(code)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):  # what the tests have started
        os.killpg(child, signal.SIGKILL)
    with os.fdopen(read) as stream:
        last = (stream.read().splitlines() or [""])[-1]
    if os.WIFSIGNALED(status):
        return ("too slow" if os.WTERMSIG(status) in TOO_SLOW else "failed"), last
    if os.WEXITSTATUS(status) == NO_RUN:
        return "not run", last
    return ("passed" if os.WEXITSTATUS(status) == 0 else "failed"), last


def enter(folder: Path, compiled_in: Path, interpreted: bool, keeps: bool = False) -> None:
    """Make the copy the one that is imported, and say nothing."""
    os.chdir(folder)
    sys.dont_write_bytecode = not keeps
    sys.path[:] = [str(folder / "src"), *(p for p in sys.path if not p.endswith("/src"))]
    os.environ |= {"PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(compiled_in)}
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": str(int(interpreted))}
    # Plugins that other packages install (zarr, hypothesis) take long to load.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.suppress(ImportError):
        config = importlib.import_module("numba.core.config")
        config.CACHE_DIR, config.DISABLE_JIT = str(compiled_in), int(interpreted)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


class Session:
    """A plugin for pytest: it collects, gives the tests to ``work``, and notes what fails."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self.work = work
        self.items = dict[str, Any]()
        self.failed = False

    def pytest_runtestloop(self, session: Any) -> bool:
        """Do the work in place of running every test."""
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        self.failed = self.failed or report.failed

    def tried(self, seconds: dict[str, float], more: float, pipe: int) -> int:
        """Run the tests in their order up to the first that fails; return 1 for a failure."""
        items = [self.items[test] for test in seconds if test in self.items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            os.write(pipe, f"{item.nodeid}\n".encode())
            # The signals end the process, also inside a compiled loop.
            limit(SLOWER * seconds[item.nodeid] + more)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        limit(0)
        return int(self.failed)


def collect(folder: Path, files: Iterable[str], work: Callable[[Session], None]) -> int:
    """Collect the tests of these files and do the work; return pytest's status."""
    import pytest

    scratch = ["--basetemp", str(folder / "scratch")]
    options = ["-q", "-s", "-p", "no:cacheprovider", *scratch]
    return int(pytest.main([*options, *sorted(files)], plugins=[Session(work)]))


def code_of(source: str, path: Path, place: Place) -> CodeType:
    """Return the compiled body of a function of a file."""
    found = list[CodeType]()

    def look(code: CodeType) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                if inner.co_qualname == place[0]:
                    found.append(inner)
                if not inner.co_flags & IS_FUNCTION:
                    look(inner)

    look(compile(source, str(path), "exec"))
    return found[place[1]]


def replace(path: Path, mutant: Mutant) -> None:
    """Give the function that is in memory the mutant's body.

    All that refers to the function sees it: decorators, properties, other modules.
    """
    assert mutant.function is not None
    importlib.import_module("cofem." + mutant.file.removesuffix(".py").replace("/", "."))
    old = code_of(path.read_text(encoding="utf-8"), path, mutant.function)
    new = code_of(mutant.source, path, mutant.function)
    same = [
        function
        for function in gc.get_objects()
        if type(function) is FunctionType
        and function.__code__.co_filename == old.co_filename
        and function.__code__.co_qualname == old.co_qualname
        and function.__code__.co_firstlineno == old.co_firstlineno
    ]
    if not same:
        raise LookupError(f"{mutant.function[0]} is not in memory")
    for function in same:
        function.__code__ = new


def importers(package: Path, files: set[str]) -> list[set[str]]:
    """Return the files that import from these, then those that import from these, and so on."""
    texts = {p.relative_to(package).as_posix(): p.read_text("utf-8") for p in package.rglob("*.py")}
    levels, new = list[set[str]](), files
    while new:
        paths = [Path(name).with_suffix("") for name in new]
        dotted = "|".join(re.escape(".".join(path.parts)) for path in paths)
        inside = "|".join(
            rf"{re.escape('.'.join(path.parts[:-1]))} import [^\n]*\b{re.escape(path.name)}\b"
            for path in paths
        )
        pattern = re.compile(rf"from cofem\.(({dotted}) import|{inside})")
        found = {name for name, text in texts.items() if pattern.search(text)}
        new = found - files.union(*levels)
        levels.append(new)
    return levels


def with_compiled_callers(package: Path, file: str) -> set[str]:
    """Return a file and those whose compiled functions may call its own, or hold its constants."""
    found, new = {file}, {file}
    while new:
        users = importers(package, new)[0]
        new = {f for f in users if "@compiled" in (package / f).read_text("utf-8")} - found
        found |= new
    return found


def forget_compiled(kept: Path, fresh: Path, files: Iterable[str]) -> None:
    """Copy numba's compiled code without that of ``files``.

    numba does not see that a function calls one that has changed: its callers go too.
    """
    shutil.rmtree(fresh, ignore_errors=True)
    kept.mkdir(exist_ok=True)
    shutil.copytree(kept, fresh)
    for file in files:
        for path in fresh.rglob(f"{Path(file).stem}.*.nb?"):
            path.unlink()
