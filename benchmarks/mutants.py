"""Mutants of the loop and the solvers: small faults that the tests should notice.

    python benchmarks/mutants.py 300 --work DIR       # as many mutants, the same ones every time
    python benchmarks/mutants.py 300 --work DIR       # again: goes on where it was stopped
    python benchmarks/mutants.py 300 --work DIR --again --tests tests/learning/test_stopping.py
    python benchmarks/mutants.py 300 --work DIR --check   # do the tests that failed pass otherwise?

A mutant is one change at one place: another comparison, another arithmetic operator, a constant
that is doubled (or 1 for 0), ``and`` for ``or``, a condition turned round, or a function that
returns at once. It is made in a copy of the package, DIR/copy, never in the repository; the tests
are copied anew every time. A record keeps which test runs which line.

A mutant meets only tests that run its line: those of test files that import its file first, then
those of its own folder, the quickest first, up to ``--seconds`` in all, and no more after the first
that fails. It is killed by a test that fails,
or that takes five times its usual processor seconds and ten more. There are three ways, in turn:

1. of a function that numba compiles: without numba, in a process forked from one session of pytest;
2. of other functions: likewise, with numba;
3. of lines outside functions, and compiled functions that survived: the changed file is imported
   anew, and numba compiles it and its callers.

The steps for CUDA need a GPU and are left out. DIR/mutants.csv has a row a mutant.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mutants_made import Mutant, drawn, is_kept, lines_of, node_of
from mutants_record import Record, file_of, near_compiled, test_files
from mutants_tests import (
    COMPILING,
    MORE,
    Session,
    collect,
    copy_tests,
    enter,
    forget_compiled,
    importers,
    in_child,
    make_copy,
    preload,
    replace,
    with_compiled_callers,
)  # fmt: skip

SEED = 2026
KILLED = ("failed", "too slow")
# Survived without numba, and still to be compiled.
WAITS = "passed interpreted"
Key = tuple[str, ...]


class Table:
    """The verdicts so far, and the test that was the last to run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = dict[Key, tuple[str, str]]()
        self.read()

    def read(self) -> None:
        """Read what another process has written."""
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as stream:
                rows = list(csv.reader(stream))[1:]
            self.rows = {tuple(row[:-2]): (row[-2], row[-1]) for row in rows}

    def add(self, mutant: Mutant, verdict: str, last: str) -> None:
        """Add a verdict, and write all."""
        self.rows[mutant.key] = verdict, last
        with self.path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            heads = ["file", "line", "column", "kind", "before", "after", "verdict", "last test"]
            writer.writerow(heads)
            writer.writerows([*key, *row] for key, row in self.rows.items())
        print(verdict, *mutant.key, last, flush=True)

    def verdict(self, mutant: Mutant) -> str:
        """Return the verdict, or an empty string."""
        return self.rows.get(mutant.key, ("", ""))[0]


class Judge:
    """Tries mutants against the tests that run them."""

    def __init__(self, folder: Path, seconds: float, files: list[str], table: Table) -> None:
        self.folder, self.seconds, self.files, self.table = folder, seconds, files, table
        self.copy, self.package = folder / "copy", folder / "copy" / "src" / "cofem"
        self.record = Record(folder, files, interpreted=False)
        quick = [file for file in near_compiled(self.copy) if file in files]
        self.interpreted = Record(folder, quick, interpreted=True)

    def tests(self, record: Record, mutant: Mutant) -> dict[str, float]:
        """Return the tests that run the mutant, as far as the record can tell."""
        found = record.tests_of(mutant.file, [mutant.line])
        if mutant.function is not None:
            text = (self.package / mutant.file).read_text(encoding="utf-8")
            node = node_of(text, mutant.function)
            found = found or record.tests_of(mutant.file, lines_of(node))
            if is_kept(node):
                users = [mutant.file, *importers(self.package, {mutant.file})[0]]
                found = found.union(*(record.tests_of(file) for file in users))
        if not found and record is self.record:
            # A line that runs when the file is imported, or that numba compiles.
            found = self.interpreted.tests_of(mutant.file, [mutant.line])
            found |= record.tests_of(mutant.file)
            for users in importers(self.package, {mutant.file}) if not found else []:
                found = found.union(*(record.tests_of(file) for file in users))
                if found:
                    break
        own = f"tests/{mutant.file.split('/')[0]}"
        return record.ordered(found, self.near(mutant.file), own, self.seconds)

    def near(self, file: str) -> set[str]:
        """Return the test files that import a file of the package."""
        folder, _, name = f"cofem.{file.removesuffix('.py').replace('/', '.')}".rpartition(".")
        pattern = re.compile(rf"from {re.escape(folder)}(\.| import [^\n]*\b){name}\b")
        texts = {test: (self.copy / test).read_text(encoding="utf-8") for test in self.files}
        return {test for test, text in texts.items() if pattern.search(text)}

    def in_session(self, mutants: list[Mutant], record: Record) -> None:
        """Judge mutants in processes forked from one session, which has imported everything."""
        chosen = {mutant: self.tests(record, mutant) for mutant in mutants}
        without = record is self.interpreted
        for mutant in mutants:
            if not chosen[mutant]:
                self.table.add(mutant, WAITS if without else "no test", "")
        chosen = {mutant: tests for mutant, tests in chosen.items() if tests}

        def work(session: Session) -> None:
            for mutant, tests in chosen.items():
                found, last = in_child(trial(session, mutant, self.package, tests))
                self.table.add(mutant, WAITS if without and found == "passed" else found, last)

        def run(_: int) -> int:
            enter(self.copy, self.folder / "compiled", interpreted=without)
            files = {file_of(t) for tests in chosen.values() for t in tests}
            return collect(self.folder, files, work)

        if chosen and in_child(run)[0] != "passed":
            raise RuntimeError("the session of pytest broke off")
        self.table.read()

    def anew(self, mutant: Mutant) -> None:
        """Judge a mutant by importing, and compiling, what has changed."""
        tests = self.tests(self.record, mutant)
        path = self.package / mutant.file
        original, times = path.read_text(encoding="utf-8"), path.stat()
        changed = with_compiled_callers(self.package, mutant.file)
        fresh = self.folder / "anew"

        def run(pipe: int) -> int:
            status = 1  # a mutant with which the tests cannot even be collected

            def work(session: Session) -> None:
                nonlocal status
                status = session.tried(tests, more, pipe)

            enter(self.copy, fresh, interpreted=False)
            collect(self.folder, {file_of(test) for test in tests}, work)
            return status

        more = MORE + (COMPILING if mutant.compiled else 0)
        try:
            path.write_text(mutant.source, encoding="utf-8")
            forget_compiled(self.folder / "compiled", fresh, changed)
            found, last = in_child(run) if tests else ("no test", "")
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what is cached holds again
        self.table.add(mutant, found, last)

    def check(self) -> None:
        """Run the tests that have killed a mutant without one, in the same way."""
        killers = {last for verdict, last in self.table.rows.values() if verdict in KILLED}
        for record in (self.record, self.interpreted):
            self._check(record, {t: record.seconds[t] for t in killers if t in record.seconds})

    def _check(self, record: Record, tests: dict[str, float]) -> None:
        told = os.dup(1)  # the session is silent

        def work(session: Session) -> None:
            for test, seconds in tests.items():
                one = {test: seconds}
                found, _ = in_child(partial(session.tried, one, MORE))
                os.write(told, f"{found} without a mutant: {test}\n".encode())

        def run(_: int) -> int:
            interpreted = record is self.interpreted
            enter(self.copy, self.folder / "compiled", interpreted)
            collect(self.folder, {file_of(test) for test in tests}, work)
            return 0

        in_child(run)


def trial(
    session: Session, mutant: Mutant, package: Path, tests: dict[str, float]
) -> Callable[[int], int]:
    """Return what a forked process does with a mutant."""

    def work(pipe: int) -> int:
        replace(package / mutant.file, mutant)
        return session.tried(tests, MORE, pipe)

    return work


def waiting(mutants: Iterable[Mutant], table: Table, again: bool) -> list[Mutant]:
    """Return the mutants without a verdict, and if ``again`` the survivors."""
    return [
        mutant
        for mutant in mutants
        if table.verdict(mutant) in ("", WAITS, "not run")
        or (again and table.verdict(mutant) not in KILLED)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many mutants are drawn")
    parser.add_argument("--work", type=Path, required=True, help="folder of copy, record and table")
    parser.add_argument("--seconds", type=float, default=60.0, help="usual seconds of the tests")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    parser.add_argument("--tests", nargs="*", default=[], help="these test files and no others")
    parser.add_argument("--only", default="", help="mutants of files with this in their names")
    parser.add_argument("--check", action="store_true", help="try the tests that killed, unchanged")
    arguments = parser.parse_args()
    folder = arguments.work.resolve()
    preload()
    if not (folder / "copy").exists():
        make_copy(folder / "copy")
    copy_tests(folder / "copy")
    table = Table(folder / "mutants.csv")
    files = arguments.tests or test_files(folder / "copy")
    judge = Judge(folder, arguments.seconds, files, table)
    if arguments.check:
        judge.check()
        return
    mutants = drawn(folder / "copy" / "src" / "cofem", arguments.number, SEED)
    due = [m for m in waiting(mutants, table, arguments.again) if arguments.only in m.file]
    inside = [m for m in due if m.function is not None and table.verdict(m) != "not run"]
    first = [m for m in inside if m.compiled and table.verdict(m) != WAITS]
    judge.in_session(first, judge.interpreted)
    judge.in_session([m for m in inside if not m.compiled], judge.record)
    for mutant in due:
        outside = mutant.function is None or table.verdict(mutant) in (WAITS, "not run")
        if outside:
            judge.anew(mutant)
    verdicts = [table.verdict(mutant) for mutant in mutants if table.verdict(mutant)]
    killed = sum(verdict in KILLED for verdict in verdicts)
    print(f"{killed} killed, {len(verdicts)} run, {len(mutants)} drawn")


if __name__ == "__main__":
    main()
