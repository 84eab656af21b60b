"""Mutants of the loop and the solvers: small faults that the tests should notice.

    python benchmarks/mutants.py 300 --work DIR       # as many mutants, the same ones every time
    python benchmarks/mutants.py 300 --work DIR       # again: goes on where it was stopped
    python benchmarks/mutants.py 300 --work DIR --again --seconds 300   # the survivors once more
    python benchmarks/mutants.py 300 --work DIR --again --tests tests/learning/test_stopping.py

A mutant is one change at one place: another comparison, another arithmetic operator, a constant
that is doubled (or 1 for 0), ``and`` for ``or``, a condition turned round, or a function that
returns at once. It is made in a copy of the package, DIR/copy, never in the repository; the tests
are copied anew every time. A record keeps which test runs which line. A mutant meets only tests
that run its line, those of its own folder first, the quickest first, up to ``--seconds`` in all. It
is killed when a test fails, or takes five times its usual processor seconds and ten more. Where
numba compiles the file, the tests first run without numba: the record knows the lines there too,
and nothing is compiled. A mutant that survives this is compiled. The steps for CUDA need a GPU and
are left out. DIR/mutants.csv has a row a mutant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants_files import MUTATED, near_compiled, test_files
from mutants_record import Record
from mutants_tests import copy_tests, forget_compiled, importers, make_copy, preload, run

SEED = 15
KILLED = ("failed", "too slow")
# Fused kernels and CUDA graphs: no test runs them without a GPU.
NEEDS_A_GPU = "solvers/steps/cuda/"
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file: where, what, and the text of the file with it."""

    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, ...]:
        """What the table says of it; a place and its change, so no two are alike."""
        place = (self.file, str(self.line), str(self.column))
        return (*place, self.kind, self.before, self.after)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node may become."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARISONS:
        new.ops[0] = COMPARISONS[type(new.ops[0])]()
        yield "comparison", new
    elif isinstance(new, (ast.BinOp, ast.AugAssign)) and type(new.op) in OPERATORS:
        new.op = OPERATORS[type(new.op)]()
        yield "arithmetic", new
    elif isinstance(new, ast.Constant) and type(new.value) in (int, float):
        new.value = 1 if new.value == 0 else 2 * new.value
        yield "constant", new
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
        yield "boolean", new
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        yield "boolean", new
    elif isinstance(new, (ast.If, ast.IfExp, ast.While)):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "condition", new
    elif isinstance(new, ast.Return) and new.value is not None:
        new.value = ast.Constant(None)
        yield "return", new


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, index, node) of code that runs: no annotations, no TYPE_CHECKING."""

    def below(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, child in children:
                if not isinstance(child, ast.AST):
                    continue
                if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                    continue
                yield parent, field, index, child
                yield from below(child)

    return below(tree)


def mutants_of(package: Path, path: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = []
    for parent, field, index, node in places(tree):
        for kind, new in changes(node):
            line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
            before = first_line(node)
            put(parent, field, index, new)
            after, source = first_line(new), ast.unparse(ast.fix_missing_locations(tree))
            put(parent, field, index, node)
            name = path.relative_to(package).as_posix()
            found.append(Mutant(name, line, column, kind, before, after, source))
    return found


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def drawn(package: Path, number: int) -> list[Mutant]:
    """Return the mutants to run: a fixed seed draws them among all of them."""
    files = [p for part in MUTATED for p in sorted((package / part).rglob("*.py"))]
    files = [p for p in files if not p.relative_to(package).as_posix().startswith(NEEDS_A_GPU)]
    every = [mutant for path in files for mutant in mutants_of(package, path)]
    print(f"{len(every)} mutants in {len(files)} files", flush=True)
    return random.Random(SEED).sample(every, min(number, len(every)))


def lines_around(source: str, line: int) -> range:
    """Return the lines of the innermost function around a line, without its first one."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return range(0)
    inner = max(around, key=lambda node: node.lineno)
    return range(inner.body[0].lineno, (inner.end_lineno or 0) + 1)


class Judge:
    """Changes one file of the copy at a time, and runs the tests that may notice it."""

    def __init__(
        self, folder: Path, seconds: float, files: list[str], never_compiles: bool = False
    ) -> None:
        self.never_compiles = never_compiles
        self.copy, self.package = folder / "copy", folder / "copy" / "src" / "cofem"
        # Few seconds first: most mutants need no more, and importing a test takes time too.
        self.totals = [1.0, seconds / 4, seconds]
        self.record = Record(folder, files, interpreted=False)
        quick = [file for file in near_compiled(self.copy) if file in files]
        self.interpreted = Record(folder, quick, interpreted=True)

    def candidates(self, record: Record, mutant: Mutant) -> set[str]:
        """Return the tests that run the mutant, as far as the record can tell."""
        known, source = record.tests_of, (self.package / mutant.file).read_text("utf-8")
        run_it = known(mutant.file, [mutant.line])
        run_it = run_it or known(mutant.file, lines_around(source, mutant.line))
        # A line that runs once, when the file is imported.
        run_it = run_it or known(mutant.file)
        if run_it:
            return run_it
        for files in importers(self.package, {mutant.file}):
            run_it = run_it.union(*(known(file) for file in files))
            if run_it:
                break
        return run_it

    def verdict(self, mutant: Mutant) -> str:
        """Return what became of the mutant: failed and too slow are killed, passed survived."""
        path = self.package / mutant.file
        original, times = path.read_text(encoding="utf-8"), path.stat()
        compiles = "@compiled" in original
        try:
            path.write_text(mutant.source, encoding="utf-8")
            if compiles:
                found = self.judged(mutant, self.interpreted, self.copy / "none", False)
                if found in KILLED or (self.never_compiles and found == "passed"):
                    return found
                fresh = self.copy / "anew"
                shutil.rmtree(fresh, ignore_errors=True)
                changed = {mutant.file}.union(*importers(self.package, {mutant.file}))
                forget_compiled(self.copy / "compiled", fresh, changed)
                return self.judged(mutant, self.record, fresh, True)
            return self.judged(mutant, self.record, self.copy / "compiled", False)
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what is cached holds again

    def judged(self, mutant: Mutant, record: Record, compiled_in: Path, compiles: bool) -> str:
        """Return the verdict of the tests of one record."""
        own = f"tests/{mutant.file.split('/')[0]}"
        batches = record.batches(self.candidates(record, mutant), own, self.totals)
        for tests in batches:
            interpreted = record is self.interpreted
            found = run(self.copy, compiled_in, tests, compiles, interpreted)
            if found in KILLED:
                return found
        return "passed" if batches else "no test"


def read_table(path: Path) -> dict[tuple[str, ...], str]:
    """Return the verdicts there are: {key: verdict}."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as stream:
        return {tuple(row[:-1]): row[-1] for row in list(csv.reader(stream))[1:]}


def write_table(path: Path, verdicts: dict[tuple[str, ...], str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", "line", "column", "kind", "before", "after", "verdict"])
        writer.writerows([*key, verdict] for key, verdict in verdicts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many mutants are drawn")
    parser.add_argument("--work", type=Path, required=True, help="folder of copy, record and table")
    parser.add_argument("--seconds", type=float, default=20.0, help="usual seconds of the tests")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    parser.add_argument("--tests", nargs="*", default=[], help="these test files and no others")
    parser.add_argument("--interpreted", action="store_true", help="do not compile any survivor")
    parser.add_argument("--only", default="", help="mutants of files with this in their names")
    arguments = parser.parse_args()
    folder = arguments.work.resolve()
    table = folder / "mutants.csv"
    preload()
    if not (folder / "copy").exists():
        make_copy(folder / "copy")
    copy_tests(folder / "copy")
    files = arguments.tests or test_files(folder / "copy")
    judge = Judge(folder, arguments.seconds, files, arguments.interpreted)
    verdicts = read_table(table)
    mutants = drawn(folder / "copy" / "src" / "cofem", arguments.number)
    for mutant in mutants:
        had = verdicts.get(mutant.key)
        if had in KILLED or (had is not None and not arguments.again):
            continue
        if arguments.only not in mutant.file:
            continue
        verdicts[mutant.key] = judge.verdict(mutant)
        write_table(table, verdicts)
        print(verdicts[mutant.key], *mutant.key, flush=True)
    judged = [verdicts[mutant.key] for mutant in mutants if mutant.key in verdicts]
    killed = sum(verdict in KILLED for verdict in judged)
    print(f"{killed} killed, {len(judged)} run, {len(mutants)} drawn")


if __name__ == "__main__":
    main()
