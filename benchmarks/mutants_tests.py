"""Which tests run which line of cofem, and one test run in a process of its own.

``benchmarks/mutants.py`` uses it. The record needs ``pip install coverage``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
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
# A test may take as many times its usual seconds, and so many more (the machine may be busy).
SLOWER, MORE, COMPILING = 5, 10, 60
MOST_MEMORY = 6 * 2**30
NO_RUN = 70  # exit status of a process that did not come to its tests


def make_copy(folder: Path) -> None:
    """Copy sources and tests: mutants are made there, never in the repository."""
    folder.mkdir(parents=True)
    for part in ("src", "tests", "pyproject.toml", "conftest.py"):
        source = ROOT / part
        call: Callable[..., object] = shutil.copytree if source.is_dir() else shutil.copy
        call(source, folder / part)


def preload() -> None:
    """Import the libraries of the tests, as far as they are installed; never cofem."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class Chosen:
    """A plugin for pytest: these tests only, the quickest first, each with a limit of its own.

    ``seconds`` are those of tests, or of the tests of a whole file.
    """

    def __init__(self, seconds: dict[str, float], more: float) -> None:
        self.seconds, self.more = seconds, more

    def usual(self, test: str) -> float | None:
        """Return the usual seconds of a test; None if it is not chosen."""
        return self.seconds.get(test, self.seconds.get(test.split("::")[0]))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the chosen tests, the quickest first."""
        items[:] = [item for item in items if self.usual(item.nodeid) is not None]
        items.sort(key=lambda item: self.usual(item.nodeid))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin the time of a test."""
        # The signal ends the process, also inside a compiled loop.
        signal.alarm(int(SLOWER * (self.usual(nodeid) or 0.0) + self.more))

    def pytest_sessionfinish(self) -> None:
        """Let the process end without a limit."""
        signal.alarm(0)


class Recorder:
    """A plugin for pytest: the seconds of every test, and the lines that it runs."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.seconds = coverage, dict[str, float]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lines from now on belong to this test."""
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add the seconds of set-up, call and tear-down."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_runtest_logfinish(self) -> None:
        """Lines between tests belong to none."""
        self.coverage.switch_context("")


def in_child(folder: Path, compiled_in: Path, work: Callable[[], int]) -> str:
    """Run ``work`` in a forked process; return "passed", "failed" or "too slow"."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = NO_RUN
        try:
            enter(folder, compiled_in)
            code = work()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):  # what the tests have started
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return "too slow" if os.WTERMSIG(status) == signal.SIGALRM else "failed"
    if os.WEXITSTATUS(status) in (NO_RUN, 4):  # 4: pytest does not know an argument
        raise RuntimeError("the tests could not be started, so they say nothing about the mutant")
    # 5: no test is left, as in a file without examples.
    return "passed" if os.WEXITSTATUS(status) in (0, 5) else "failed"


def enter(folder: Path, compiled_in: Path) -> None:
    """Make the copy the one that is imported, and say nothing."""
    os.chdir(folder)
    sys.dont_write_bytecode = True  # two mutants of one second have the same time stamp
    sys.path[:] = [str(folder / "src"), *(p for p in sys.path if not p.endswith("/src"))]
    os.environ |= {"PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(compiled_in)}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # Plugins that other packages install (zarr, hypothesis) take two thirds of a run to load.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.suppress(ImportError):
        importlib.import_module("numba.core.config").CACHE_DIR = str(compiled_in)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def record(folder: Path, tests: list[str], out: Path) -> None:
    """Run the tests once without a mutant; write who runs what, as JSON."""

    def work() -> int:
        import coverage
        import pytest

        measured = coverage.Coverage(source=[str(folder / "src" / "cofem")], data_file=None)
        watch = Recorder(measured)
        measured.start()
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[watch])
        measured.stop()
        data = measured.get_data()
        names = {name: i for i, name in enumerate(watch.seconds)}
        lines = {
            Path(file).relative_to(folder / "src" / "cofem").as_posix(): {
                line: sorted(names[c] for c in contexts if c in names)
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        out.write_text(json.dumps({"seconds": watch.seconds, "lines": lines}), encoding="utf-8")
        return int(code)

    if in_child(folder, folder / "compiled", work) != "passed":
        raise RuntimeError(f"a test fails without a mutant; see pytest {' '.join(tests)}")


class Record:
    """What ``record`` has written."""

    def __init__(self, path: Path) -> None:
        read = json.loads(path.read_text(encoding="utf-8"))
        self.seconds: dict[str, float] = read["seconds"]
        self._tests = list(self.seconds)
        self._lines: dict[str, dict[str, list[int]]] = read["lines"]

    def tests_of(self, file: str, lines: Iterable[int] | None = None) -> set[str]:
        """Return the tests that run one of the lines, or any line of a file."""
        known = self._lines.get(file, {})
        wanted = known.values() if lines is None else (known.get(str(i), []) for i in lines)
        return {self._tests[i] for found in wanted for i in found}

    def quickest(self, tests: set[str], own_folder: str, most: float) -> dict[str, float]:
        """Return tests of about ``most`` seconds in all: the quickest, the folder's own first."""
        chosen: dict[str, float] = {}
        total = 0.0
        for own in (True, False):
            group = [t for t in tests if t.startswith(own_folder) == own]
            for test in sorted(group, key=lambda t: self.seconds[t]):
                if total + self.seconds[test] > most:
                    break
                chosen[test] = self.seconds[test]
                total += self.seconds[test]
        return chosen


def run(folder: Path, compiled_in: Path, seconds: dict[str, float], compiles: bool) -> str:
    """Run the tests, the quickest first, up to the first that fails."""

    def work() -> int:
        import pytest

        files = sorted({test.split("::")[0] for test in seconds})
        signal.alarm(COMPILING)  # for importing and collecting
        chosen = Chosen(seconds, MORE + (COMPILING if compiles else 0))
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files], plugins=[chosen]))

    return in_child(folder, compiled_in, work)


def importers(package: Path, file: str) -> list[set[str]]:
    """Return the files that import from this one, then those that import from these, and so on."""
    texts = {p.relative_to(package).as_posix(): p.read_text("utf-8") for p in package.rglob("*.py")}
    levels, new = list[set[str]](), {file}
    while new:
        paths = [Path(name).with_suffix("") for name in new]
        dotted = "|".join(re.escape(".".join(path.parts)) for path in paths)
        inside = "|".join(
            rf"{re.escape('.'.join(path.parts[:-1]))} import [^\n]*\b{re.escape(path.name)}\b"
            for path in paths
        )
        pattern = re.compile(rf"from cofem\.(({dotted}) import|{inside})")
        found = {name for name, text in texts.items() if pattern.search(text)}
        new = found - {file}.union(*levels)
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
