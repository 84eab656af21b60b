"""Mutants of the loop and the solvers: small faults that the tests should notice.

    python benchmarks/mutants.py 300 --work DIR       # as many mutants, the same ones every time
    python benchmarks/mutants.py 300 --work DIR       # again: goes on where it was stopped
    python benchmarks/mutants.py 300 --work DIR --again --seconds 300   # the survivors once more
    python benchmarks/mutants.py 300 --work DIR --again --tests tests/learning/test_stopping.py

A mutant is one change at one place: another comparison, another arithmetic operator, a constant
that is doubled (or 1 for 0), ``and`` for ``or``, a condition turned round, or a function that
returns at once. It is made in a copy of the package, DIR/copy, never in the repository. The tests
run once without a mutant, and DIR/record.json keeps which test runs which line. A mutant then meets
only tests that run its line (of a compiled function or a constant: its file, or the files that
import it), those of its own folder first, the quickest first, up to ``--seconds`` in all. It is
killed when a test fails or takes five times its usual seconds and ten more. ``--tests`` may name
files that are not in the record: tests that were written for the survivors, copied to DIR/copy. The
steps for CUDA need a GPU and are left out. DIR/mutants.csv has a row a mutant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants_tests import ROOT, Record, forget_compiled, importers, make_copy, preload, record, run

PACKAGE = ROOT / "src" / "cofem"
MUTATED = ("learning", "solvers")
SEED = 15
# A test that is not in the record may take so many seconds.
UNKNOWN = 5.0
# Fused kernels and CUDA graphs: no test runs them without a GPU.
NEEDS_A_GPU = "solvers/steps/cuda/"
TESTS = ["src/cofem/learning", "src/cofem/solvers", "tests/learning", "tests/solvers"]
TESTS.append("tests/fitting")  # whole fits
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


def mutants_of(path: Path) -> list[Mutant]:
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
            name = path.relative_to(PACKAGE).as_posix()
            found.append(Mutant(name, line, column, kind, before, after, source))
    return found


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def drawn(number: int) -> list[Mutant]:
    """Return the mutants to run: a fixed seed draws them among all of them."""
    files = [p for part in MUTATED for p in sorted((PACKAGE / part).rglob("*.py"))]
    files = [p for p in files if not p.relative_to(PACKAGE).as_posix().startswith(NEEDS_A_GPU)]
    every = [mutant for path in files for mutant in mutants_of(path)]
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

    def __init__(self, folder: Path, seconds: float, tests: list[str]) -> None:
        self.copy, self.seconds, self.tests = folder / "copy", seconds, tests
        self.package = self.copy / "src" / "cofem"
        self.record = Record(folder / "record.json")
        unchanged = self.record.quickest(set(self.record.seconds), "tests/solvers", seconds)
        if run(self.copy, self.copy / "compiled", unchanged, compiles=True) != "passed":
            raise RuntimeError("tests fail in the copy without a mutant: no verdict would count")

    def candidates(self, mutant: Mutant) -> set[str]:
        """Return the tests that run the mutant, as far as the record can tell."""
        known, source = self.record.tests_of, (PACKAGE / mutant.file).read_text("utf-8")
        run_it = known(mutant.file, [mutant.line])
        run_it = run_it or known(mutant.file, lines_around(source, mutant.line))
        if run_it:
            return run_it
        # Compiled code, or a line that runs once, when the file is imported.
        run_it = known(mutant.file)
        for files in importers(PACKAGE, mutant.file):
            run_it = run_it.union(*(known(file) for file in files))
            if run_it:
                break
        return run_it

    def verdict(self, mutant: Mutant) -> str:
        """Return what became of the mutant: failed and too slow are killed, passed survived."""
        own = f"tests/{mutant.file.split('/')[0]}"
        tests = dict.fromkeys(self.tests, UNKNOWN)
        if not tests:
            tests = self.record.quickest(self.candidates(mutant), own, self.seconds)
        if not tests:
            return "no test"
        path = self.package / mutant.file
        original = path.read_text(encoding="utf-8")
        compiles = "@compiled" in original
        compiled_in = self.copy / ("anew" if compiles else "compiled")
        if compiles:
            changed = {mutant.file}.union(*importers(PACKAGE, mutant.file))
            forget_compiled(self.copy / "compiled", compiled_in, changed)
        try:
            path.write_text(mutant.source, encoding="utf-8")
            return run(self.copy, compiled_in, tests, compiles)
        finally:
            path.write_text(original, encoding="utf-8")
            if compiles:
                shutil.rmtree(compiled_in)


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
    parser.add_argument("--seconds", type=float, default=40.0, help="usual seconds of the tests")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    parser.add_argument("--tests", nargs="*", default=[], help="these test files and no others")
    arguments = parser.parse_args()
    folder = arguments.work.resolve()
    table = folder / "mutants.csv"
    preload()
    if not (folder / "copy").exists():
        make_copy(folder / "copy")
    if not (folder / "record.json").exists():
        record(folder / "copy", TESTS, folder / "record.json")
    judge = Judge(folder, arguments.seconds, arguments.tests)
    verdicts = read_table(table)
    mutants = drawn(arguments.number)
    for mutant in mutants:
        had = verdicts.get(mutant.key)
        if had in ("failed", "too slow") or (had is not None and not arguments.again):
            continue
        verdicts[mutant.key] = judge.verdict(mutant)
        write_table(table, verdicts)
        print(verdicts[mutant.key], *mutant.key, flush=True)
    killed = sum(verdicts[mutant.key] in ("failed", "too slow") for mutant in mutants)
    print(f"{killed} of {len(mutants)} killed")


if __name__ == "__main__":
    main()
