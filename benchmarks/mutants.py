"""Mutants of the loop and the solvers: small faults that the tests should notice.

    python benchmarks/mutants.py 300                  # as many mutants, the same ones every time
    python benchmarks/mutants.py 15 --limit 120       # seconds for the tests of one mutant
    python benchmarks/mutants.py 300 --first 100 --last 200 --out part.csv

A mutant is one change at one place: another comparison, another arithmetic operator, a constant
that is doubled (or 1 for 0), ``and`` for ``or``, a condition turned round, or a function that
returns at once. It is made in a copy of the package, and the tests of the mutated file run
there: doctests of the file itself first, then the folder of tests with its name, then those of
whole fits. A mutant is killed when a test fails or the time limit passes (three times the seconds
that the same tests take without a mutant, and at least ``--limit``). After a change of compiled
functions everything is compiled anew: numba does not see that a function calls one that changed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "cofem"
MUTATED = ("learning", "solvers")
SEED = 15
# Tests of whole fits, for what the tests of a file's own folder let through.
WHOLE_FITS = (
    "tests/fitting/test_fit_answers.py",
    "tests/fitting/test_fit_loop.py",
    "tests/fitting/test_fit_joint.py",
    "tests/fitting/test_fit_checkpoint.py",
)
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
    kind: str
    before: str
    after: str
    source: str


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
            line = getattr(node, "lineno", 0)
            before = first_line(node)
            put(parent, field, index, new)
            after, source = first_line(new), ast.unparse(ast.fix_missing_locations(tree))
            put(parent, field, index, node)
            name = path.relative_to(PACKAGE).as_posix()
            found.append(Mutant(name, line, kind, before, after, source))
    return found


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def drawn(number: int, parts: Sequence[str] = MUTATED) -> list[Mutant]:
    """Return the mutants to run: a fixed seed draws them among all of them."""
    files = [p for part in parts for p in sorted((PACKAGE / part).rglob("*.py"))]
    every = [mutant for path in files for mutant in mutants_of(path)]
    print(f"{len(every)} mutants in {len(files)} files", flush=True)
    return random.Random(SEED).sample(every, min(number, len(every)))


def tests_of(file: str) -> list[list[str]]:
    """Return the test runs for a file, the cheapest first."""
    return [[f"src/cofem/{file}"], [f"tests/{file.split('/')[0]}"], list(WHOLE_FITS)]


class Copy:
    """A copy of sources and tests, in which one file at a time is changed."""

    def __init__(self, folder: Path, limit: float, stages: int) -> None:
        self.folder, self.limit, self.stages = folder, limit, stages
        for part in ("src", "tests", "pyproject.toml"):
            source = ROOT / part
            call: Callable[..., object] = shutil.copytree if source.is_dir() else shutil.copy
            call(source, folder / part)
        self.usual: dict[tuple[str, ...], float] = {}

    def run(
        self, tests: list[str], limit: float | None, compiled_in: str = "compiled"
    ) -> tuple[str, float]:
        """Return "passed", "failed" or "too slow", and the seconds."""
        environment = {
            **os.environ, "PYTHONPATH": str(self.folder / "src"), "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_CACHE_DIR": str(self.folder / compiled_in),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return "too slow", time.perf_counter() - began
        # 5: there are no tests, as in a file without examples.
        return "passed" if code in (0, 5) else "failed", time.perf_counter() - began

    def limit_for(self, tests: list[str]) -> float:
        """Return three times the seconds of the unchanged copy; the tests must pass there."""
        key = tuple(tests)
        if key not in self.usual:
            verdict, seconds = self.run(tests, None)
            if verdict != "passed":
                raise RuntimeError(f"the tests fail without a mutant: {' '.join(tests)}")
            self.usual[key] = seconds
        return max(self.limit, 3 * self.usual[key])

    def judged(self, mutant: Mutant) -> str:
        """Return what killed the mutant, or "survived"."""
        path = self.folder / "src" / "cofem" / mutant.file
        original = path.read_text(encoding="utf-8")
        runs = [(t, self.limit_for(t)) for t in tests_of(mutant.file)[: self.stages]]
        anew = "@compiled" in original
        try:
            path.write_text(mutant.source, encoding="utf-8")
            for tests, limit in runs:
                verdict, _ = self.run(tests, limit, "anew" if anew else "compiled")
                if verdict != "passed":
                    return f"{verdict}: {tests[0]}"
        finally:
            path.write_text(original, encoding="utf-8")
            shutil.rmtree(self.folder / "anew", ignore_errors=True)
        return "survived"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many mutants are drawn")
    parser.add_argument("--first", type=int, default=0, help="the first of them to run")
    parser.add_argument("--last", type=int, help="run those before this one")
    parser.add_argument("--part", choices=MUTATED, help="mutants of this package only")
    parser.add_argument(
        "--stages",
        type=int,
        default=3,
        choices=(1, 2, 3),
        help="1: examples of the file; 2: and the tests of its folder; 3: and whole fits",
    )
    parser.add_argument("--limit", type=float, default=120.0, help="least seconds of a test run")
    parser.add_argument("--out", type=Path, default=Path("mutants.csv"), help="the table")
    arguments = parser.parse_args()
    parts = [arguments.part] if arguments.part else MUTATED
    chosen = drawn(arguments.number, parts)[arguments.first : arguments.last]
    killed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        arguments.out.open("w", newline="", encoding="utf-8") as stream,
    ):
        copied = Copy(Path(folder), arguments.limit, arguments.stages)
        writer = csv.writer(stream)
        writer.writerow(["file", "line", "kind", "before", "after", "verdict"])
        for i, mutant in enumerate(chosen, 1):
            verdict = copied.judged(mutant)
            killed += verdict != "survived"
            row = [mutant.file, mutant.line, mutant.kind, mutant.before, mutant.after, verdict]
            writer.writerow(row)
            stream.flush()
            print(
                f"{killed} of {i} killed  {mutant.file}:{mutant.line} {mutant.kind} "
                f"{mutant.before!r} -> {mutant.after!r}: {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
