"""Run chosen tests in a forked process, against the copy of cofem that holds a mutant.

``benchmarks/mutants.py`` and ``benchmarks/mutants_record.py`` use it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Imported once, before every test run: importing them takes longer than most tests. No plugin of
# pytest may be among them (hypothesis is one): pytest warns of it, and a warning is an error.
LIBRARIES = (
    "numpy", "scipy.fft", "scipy.linalg", "scipy.sparse.linalg", "scipy.stats", "numba", "pytest",
    "torch", "array_api_strict", "pandas", "h5py", "pywt",
)  # fmt: skip
# A test may take as many times its usual processor seconds, and so many more.
SLOWER, MORE, COMPILING = 5, 10, 60
# One that waits for something that never comes takes none: so many seconds by the clock.
BY_THE_CLOCK = 300
MOST_MEMORY = 6 * 2**30
NO_RUN = 70  # exit status of a process that did not come to its tests
TOO_SLOW = (signal.SIGPROF, signal.SIGALRM)


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


class Chosen:
    """A plugin for pytest: these tests only, the quickest first, each with a limit of its own."""

    def __init__(self, seconds: dict[str, float], more: float) -> None:
        self.seconds, self.more = seconds, more

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the chosen tests, in the order in which they were chosen."""
        order = {test: i for i, test in enumerate(self.seconds)}
        items[:] = [item for item in items if item.nodeid in order]
        items.sort(key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin the time of a test."""
        # The signals end the process, also inside a compiled loop.
        limit(SLOWER * self.seconds[nodeid] + self.more)

    def pytest_sessionfinish(self) -> None:
        """Let the process end without a limit."""
        limit(0)


def limit(seconds: float) -> None:
    """End this process after so many processor seconds, or many more by the clock; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(BY_THE_CLOCK + int(seconds) if seconds else 0)


def in_child(
    folder: Path, compiled_in: Path, work: Callable[[], int],
    interpreted: bool = False, keeps: bool = False,
) -> str:  # fmt: skip
    """Run ``work`` in a forked process; return "passed", "failed" or "too slow".

    ``interpreted``: numba compiles nothing. ``keeps``: Python keeps what it has compiled.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = NO_RUN
        try:
            enter(folder, compiled_in, interpreted, keeps)
            code = work()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):  # what the tests have started
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return "too slow" if os.WTERMSIG(status) in TOO_SLOW else "failed"
    if os.WEXITSTATUS(status) in (NO_RUN, 4):  # 4: pytest does not know an argument
        raise RuntimeError("the tests could not be started, so they say nothing about the mutant")
    # 5: no test is left, as in a file without examples.
    return "passed" if os.WEXITSTATUS(status) in (0, 5) else "failed"


def enter(folder: Path, compiled_in: Path, interpreted: bool, keeps: bool) -> None:
    """Make the copy the one that is imported, and say nothing."""
    os.chdir(folder)
    sys.dont_write_bytecode = not keeps
    sys.path[:] = [str(folder / "src"), *(p for p in sys.path if not p.endswith("/src"))]
    os.environ |= {"PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(compiled_in)}
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": str(int(interpreted))}
    # Plugins that other packages install (zarr, hypothesis) take two thirds of a run to load.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.suppress(ImportError):
        config = importlib.import_module("numba.core.config")
        config.CACHE_DIR, config.DISABLE_JIT = str(compiled_in), int(interpreted)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def run(
    folder: Path, compiled_in: Path, seconds: dict[str, float], compiles: bool, interpreted: bool
) -> str:
    """Run the tests in their order, up to the first that fails."""

    def work() -> int:
        import pytest

        files = sorted({test.split("::")[0] for test in seconds})
        limit(COMPILING)  # for importing and collecting
        chosen = Chosen(seconds, MORE + (COMPILING if compiles else 0))
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files], plugins=[chosen]))

    return in_child(folder, compiled_in, work, interpreted)


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


def forget_compiled(kept: Path, fresh: Path, files: Iterable[str]) -> None:
    """Copy numba's compiled code without that of ``files``.

    numba does not see that a function calls one that has changed: its callers go too.
    """
    kept.mkdir(exist_ok=True)
    shutil.copytree(kept, fresh)
    for file in files:
        for path in fresh.rglob(f"{Path(file).stem}.*.nb?"):
            path.unlink()
