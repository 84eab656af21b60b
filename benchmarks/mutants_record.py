"""Which tests run which line of cofem: recorded once, and again where a test file has changed.

``benchmarks/mutants.py`` uses it. It needs ``pip install coverage``.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mutants_tests import in_child

# A test that takes longer is not used against mutants, and no more of a file after so many seconds:
# compiled, and when numba compiles nothing, so that the lines of its functions are seen too.
MOST = {False: 3.0, True: 1.0}
MOST_OF_A_FILE = {False: 12.0, True: 8.0}


class TooLongError(Exception):
    """A test takes too long to be used against mutants."""


class Recorder:
    """A plugin for pytest: the processor seconds of every test that passes, and its lines."""

    def __init__(self, coverage: Any, interpreted: bool) -> None:
        self.coverage, self.interpreted = coverage, interpreted
        self.seconds = dict[str, float]()
        self.failed = set[str]()
        self.began = 0.0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lines from now on belong to this test."""
        self.coverage.switch_context(nodeid)
        self.began = processor_seconds()

    def pytest_runtest_setup(self) -> None:
        """Begin the time of a test, if its file has any left."""
        import pytest

        if sum(self.seconds.values()) > MOST_OF_A_FILE[self.interpreted]:
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
        self.seconds[nodeid] = processor_seconds() - self.began


def processor_seconds() -> float:
    """Return those of this process and of the ones that it has started and waited for."""
    return sum(os.times()[:4])


def give_up(*_: object) -> None:
    raise TooLongError


def record(folder: Path, test_file: str, out: Path, interpreted: bool) -> None:
    """Run a file of tests without a mutant; write the seconds and lines of each, as JSON."""
    package = folder / "src" / "cofem"

    def work() -> int:
        import coverage
        import pytest

        measured = coverage.Coverage(source=[str(package)], data_file=None)
        watch = Recorder(measured, interpreted)
        signal.signal(signal.SIGPROF, give_up)
        measured.start()
        pytest.main(["-q", "-p", "no:cacheprovider", test_file], plugins=[watch])
        measured.stop()
        data = measured.get_data()
        seconds = {t: s for t, s in watch.seconds.items() if t not in watch.failed}
        names = {name: i for i, name in enumerate(seconds)}
        lines = {
            Path(file).relative_to(package).as_posix(): {
                line: sorted(names[c] for c in contexts if c in names)
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        written = {
            "key": key_of(folder / test_file), "seconds": seconds,
            "lines": lines, "failed": sorted(watch.failed),
        }  # fmt: skip
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(written), encoding="utf-8")
        return 0

    def compile_all() -> int:
        import pytest

        pytest.main(["-q", "-p", "no:cacheprovider", test_file])
        return 0

    if not interpreted:  # else compiling counts as a test's time, and is interrupted every time
        in_child(folder, folder / "compiled", compile_all, keeps=True)
    in_child(folder, folder / "compiled", work, interpreted, keeps=not interpreted)


def key_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Record:
    """What the tests of these files run, recorded where it is not known yet."""

    def __init__(self, folder: Path, test_files: Iterable[str], interpreted: bool) -> None:
        self.seconds = dict[str, float]()
        self._lines = dict[str, dict[int, set[str]]]()
        kept = folder / ("record_interpreted" if interpreted else "record")
        for file in test_files:
            out = kept / (file.replace("/", "__") + ".json")
            if not out.exists() or json.loads(out.read_text())["key"] != key_of(
                folder / "copy" / file
            ):
                print("recording", file, "interpreted" if interpreted else "", flush=True)
                record(folder / "copy", file, out, interpreted)
            if out.exists():
                self._add(json.loads(out.read_text(encoding="utf-8")))

    def _add(self, read: dict[str, Any]) -> None:
        tests = list(read["seconds"])
        self.seconds |= read["seconds"]
        for file, lines in read["lines"].items():
            known = self._lines.setdefault(file, {})
            for line, found in lines.items():
                known.setdefault(int(line), set()).update(tests[i] for i in found)

    def tests_of(self, file: str, lines: Iterable[int] | None = None) -> set[str]:
        """Return the tests that run one of the lines, or any line of a file."""
        known = self._lines.get(file, {})
        wanted = known.values() if lines is None else (known.get(i, set()) for i in lines)
        return {test for found in wanted for test in found}

    def batches(self, tests: set[str], own: str, totals: Iterable[float]) -> list[dict[str, float]]:
        """Return the tests in groups of about so many seconds each, the quickest first.

        Those of the file's own folder, ``own``, count as five times as quick.
        """
        waiting = sorted(tests, key=lambda t: self.seconds[t] * (1 if t.startswith(own) else 5))
        found = list[dict[str, float]]()
        for total in totals:
            group, spent = dict[str, float](), 0.0
            while waiting and spent + self.seconds[waiting[0]] <= total:
                test = waiting.pop(0)
                spent += self.seconds[test]
                group[test] = self.seconds[test]
            if group:
                found.append(group)
        return found
