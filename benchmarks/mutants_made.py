"""Small faults: all that can be made of a file, and which of them are drawn."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MUTATED = ("learning", "solvers")
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
# A function of a file: its dotted name, and which one of that name it is.
Place = tuple[str, int]


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
    function: Place | None
    compiled: bool
    """Whether numba compiles the function."""

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
        if ast.unparse(new) != ast.unparse(node):
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


def functions(body: list[ast.stmt], inside: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the dotted names and nodes of functions and methods, but of none inside another."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield inside + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{inside}{node.name}.")
        else:
            for field in ("body", "orelse", "handlers", "finalbody"):
                yield from functions(getattr(node, field, []), inside)


def at_import(tree: ast.Module) -> set[str]:
    """Return the names of functions that run when the file is imported, for tables and the like."""

    def names(node: ast.AST) -> set[str]:
        return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}

    own = dict(functions(tree.body))
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    waiting = [name for s in tree.body if not isinstance(s, kinds) for name in names(s)]
    found = set[str]()
    while waiting:
        name = waiting.pop()
        if name in own and name not in found:
            found.add(name)
            waiting += names(own[name])
    return found


def function_at(tree: ast.Module, at: tuple[int, int]) -> tuple[Place | None, bool]:
    """Return the outermost function with the place in its body, and whether it is compiled.

    None for one that runs when the file is imported: another body would come too late.
    """
    seen: dict[str, int] = {}
    early = at_import(tree)
    for name, node in functions(tree.body):
        seen[name] = seen.get(name, -1) + 1
        first, last = node.body[0], (node.end_lineno or 0, node.end_col_offset or 0)
        if (first.lineno, first.col_offset) <= at < last:
            compiled = any("compiled" in ast.unparse(d) for d in node.decorator_list)
            return None if name in early else (name, seen[name]), compiled
    return None, "@compiled" in ast.unparse(tree)


def mutants_of(package: Path, path: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(package).as_posix()
    found = []
    for parent, field, index, node in places(tree):
        at = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        for kind, new in changes(node):
            function, compiled = function_at(tree, at)
            before = first_line(node)
            put(parent, field, index, new)
            after, source = first_line(new), ast.unparse(ast.fix_missing_locations(tree))
            put(parent, field, index, node)
            mutant = Mutant(name, *at, kind, before, after, source, function, compiled)
            found.append(mutant)
    return found


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def drawn(package: Path, number: int, seed: int) -> list[Mutant]:
    """Return the mutants to run: the seed draws them among all of them."""
    files = [p for part in MUTATED for p in sorted((package / part).rglob("*.py"))]
    files = [p for p in files if not p.relative_to(package).as_posix().startswith(NEEDS_A_GPU)]
    every = [mutant for path in files for mutant in mutants_of(package, path)]
    print(f"{len(every)} mutants in {len(files)} files", flush=True)
    return random.Random(seed).sample(every, min(number, len(every)))


def node_of(source: str, place: Place) -> ast.FunctionDef:
    """Return a function of a file."""
    return [node for name, node in functions(ast.parse(source).body) if name == place[0]][place[1]]


def lines_of(node: ast.FunctionDef) -> range:
    """Return the lines of a function's body: those that a record of lines can know."""
    return range(node.body[0].lineno, (node.end_lineno or 0) + 1)


def is_kept(node: ast.FunctionDef) -> bool:
    """Whether its value is kept: then a record sees it run in one test only."""
    return any("cache" in ast.unparse(decorator) for decorator in node.decorator_list)
