"""Which tests run which line of cofem: recorded once, and again where a test file has changed.

``benchmarks/mutants.py`` uses it. It needs ``pip install coverage``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mutants_made import MUTATED
from mutants_tests import enter, importers, in_child

# A test that takes more processor seconds is not used against mutants: compiled, and when numba
# compiles nothing, so that the lines of its functions are seen too.
MOST = {False: 40.0, True: 3.0}
# No more tests of one file after so many seconds.
MOST_OF_A_FILE = {False: 240.0, True: 20.0}
TESTED = ["tests/learning", "tests/solvers", "src/cofem/learning", "src/cofem/solvers"]


def test_files(folder: Path) -> list[str]:
    """Return the files of tests, and those with examples."""
    found = [p for part in TESTED for p in sorted((folder / part).rglob("*.py"))]
    tests = [p for p in found if p.name.startswith("test_") or ">>>" in p.read_text("utf-8")]
    return [path.relative_to(folder).as_posix() for path in tests]


def near_compiled(folder: Path) -> list[str]:
    """Return the test files that run what numba compiles without much around it.

    Those of the solvers, and those that import a module that is compiled or imports such a one.
    """
    package = folder / "src" / "cofem"
    paths = [path for part in MUTATED for path in (package / part).rglob("*.py")]
    own = {p.relative_to(package).as_posix() for p in paths if "@compiled" in p.read_text("utf-8")}
    imports = "|".join(
        f"{whole} import|{whole.rpartition('.')[0]} import .*\\b{whole.rpartition('.')[2]}\\b"
        for whole in (f"cofem.{n[:-3].replace('/', '.')}" for n in own | importers(package, own)[0])
    )
    return [
        path.relative_to(folder).as_posix()
        for path in sorted((folder / "tests").rglob("test_*.py"))
        if "solvers" in path.parts or re.search(f"from ({imports})", path.read_text("utf-8"))
    ]


class TooLongError(Exception):
    """A test takes too long to be used against mutants."""


class Recorder:
    """A plugin for pytest: the processor seconds of every test that passes, and its lines."""

    def __init__(self, coverage: Any, interpreted: bool) -> None:
        self.coverage, self.interpreted = coverage, interpreted
        self.seconds = dict[str, float]()
        self.failed = set[str]()
        self.began = 0.0
        self.spent = dict[str, float]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lines from now on belong to this test."""
        self.coverage.switch_context(nodeid)
        self.began = processor_seconds()

    def pytest_runtest_setup(self, item: Any) -> None:
        """Begin the time of a test, if its file has any left."""
        import pytest

        if self.spent.get(file_of(item.nodeid), 0.0) > MOST_OF_A_FILE[self.interpreted]:
            pytest.skip("the file has had its time")
        signal.setitimer(signal.ITIMER_PROF, MOST[self.interpreted])

    def pytest_runtest_teardown(self) -> None:
        """End the time of a test."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure, and a test that was skipped."""
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Lines between tests belong to none."""
        self.coverage.switch_context("")
        took, file = processor_seconds() - self.began, file_of(nodeid)
        self.seconds[nodeid] = took
        self.spent[file] = self.spent.get(file, 0.0) + took


def file_of(test: str) -> str:
    return test.split("::")[0]


def processor_seconds() -> float:
    """Return those of this process and of the ones that it has started and waited for."""
    return sum(os.times()[:4])


def give_up(*_: object) -> None:
    raise TooLongError


def record(folder: Path, files: list[str], kept: Path, interpreted: bool) -> None:
    """Run files of tests without a mutant; write the seconds and lines of each test, as JSON."""
    copy, package = folder / "copy", folder / "copy" / "src" / "cofem"
    mutated = [str(package / part) for part in MUTATED]
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "scratch")]

    def work(_: int) -> int:
        import coverage
        import pytest

        enter(copy, folder / "compiled", interpreted, keeps=not interpreted)
        measured = coverage.Coverage(source=mutated, data_file=None)
        watch = Recorder(measured, interpreted)
        signal.signal(signal.SIGPROF, give_up)
        measured.start()
        pytest.main([*options, *files], plugins=[watch])
        measured.stop()
        found = lines_by_test(measured.get_data(), package)
        kept.mkdir(parents=True, exist_ok=True)
        for file in files:
            own = {t: s for t, s in watch.seconds.items() if file_of(t) == file}
            written = {
                "key": key_of(copy / file),
                "seconds": {t: s for t, s in own.items() if t not in watch.failed},
                "lines": {t: found.get(t, {}) for t in own if t not in watch.failed},
                "failed": sorted(watch.failed & set(own)),
            }
            (kept / name_of(file)).write_text(json.dumps(written), encoding="utf-8")
        return 0

    def compile_all(_: int) -> int:
        import pytest

        enter(copy, folder / "compiled", False, keeps=True)
        pytest.main([*options, *files])
        return 0

    if not (interpreted or (folder / "compiled").exists()):
        in_child(compile_all)  # else compiling counts as a test's time
    found = in_child(work)
    if found[0] != "passed":
        raise RuntimeError(f"the record was not made: {found}")


def lines_by_test(data: Any, package: Path) -> dict[str, dict[str, list[int]]]:
    """Return {test: {file: lines}}."""
    found = dict[str, dict[str, list[int]]]()
    for path in data.measured_files():
        file = Path(path).relative_to(package).as_posix()
        if not file.startswith(MUTATED):
            continue
        for line, contexts in data.contexts_by_lineno(path).items():
            for test in contexts:
                found.setdefault(test, {}).setdefault(file, []).append(line)
    return found


def key_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def name_of(file: str) -> str:
    return file.replace("/", "__") + ".json"


class Record:
    """What the tests of these files run, recorded where it is not known yet."""

    def __init__(self, folder: Path, files: Iterable[str], interpreted: bool) -> None:
        self.seconds = dict[str, float]()
        self._tests = dict[str, dict[int, set[str]]]()
        kept = folder / ("record_interpreted" if interpreted else "record")
        files = list(files)
        unknown = [file for file in files if not known(kept / name_of(file), folder / "copy", file)]
        if unknown:
            print(f"recording {len(unknown)} files, interpreted: {interpreted}", flush=True)
            record(folder, unknown, kept, interpreted)
        for file in files:
            self._add(json.loads((kept / name_of(file)).read_text(encoding="utf-8")))

    def _add(self, read: dict[str, Any]) -> None:
        self.seconds |= read["seconds"]
        for test, files in read["lines"].items():
            for file, lines in files.items():
                by_line = self._tests.setdefault(file, {})
                for line in lines:
                    by_line.setdefault(line, set()).add(test)

    def tests_of(self, file: str, lines: Iterable[int] | None = None) -> set[str]:
        """Return the tests that run one of the lines, or any line of a file."""
        by_line = self._tests.get(file, {})
        wanted = by_line.values() if lines is None else (by_line.get(i, set()) for i in lines)
        return {test for found in wanted for test in found}

    def ordered(self, tests: set[str], near: set[str], own: str, total: float) -> dict[str, float]:
        """Return tests and their seconds, up to ``total``, the quickest first.

        Those of the file's own folder, ``own``, count as five times as quick, and those of the test
        files that import it, ``near``, as a hundred times.
        """
        known = [test for test in tests if test in self.seconds]
        chosen, spent = dict[str, float](), 0.0

        def rank(test: str) -> float:
            far = 5.0 if not test.startswith(own) else 0.05 if file_of(test) in near else 1.0
            return self.seconds[test] * far

        for test in sorted(known, key=rank):
            spent += self.seconds[test]
            if chosen and spent > total:
                break
            chosen[test] = self.seconds[test]
        return chosen


def known(path: Path, copy: Path, file: str) -> bool:
    return path.exists() and json.loads(path.read_text())["key"] == key_of(copy / file)
