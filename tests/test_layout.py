"""The layers: a module imports only from those before it, and names only what is there."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import cofem

ROOT = Path(cofem.__file__).parent

# What may be imported comes first. Modules of one layer may import each other.
LAYERS = [
    {"backend", "files", "progress", "arguments"},
    {"operators"},
    {"solvers"},
    {"model"},
    {"learning"},
    {"rivals"},
    {"result", "plot"},
    {"fitting"},
    {"simulate", "theory", "calcium", "mri", "sklearn", "many", "fields"},
    {"paper"},
    {"cli", "__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Libraries that only the modules named here, or in folders named here, may know.
CONFINED = {
    "rich": {"progress", "cli"},
    "typer": {"cli"},
    "matplotlib": {"plot", "result", "cli", "calcium", "mri", "paper"},
    "torch": {"backend", "solvers/steps/cuda"},
    "triton": {"backend"},
    "jax": {"backend"},
    "cupy": {"backend"},
}
# A sparse tensor is no array of the standard: the operator that holds one makes it.
EXCEPTIONS = {
    ("operators/sparse.py", "torch"),
    # A forward model of deepinv says how large its output is when it is given a tensor.
    ("operators/adapters/physics.py", "torch"),
}

MODULES = sorted(ROOT.rglob("*.py"))
MOST_LINES, MOST_FILES = 300, 15
# A folder with one class in every file may have more.
MANY_FILES = {"operators"}
REPOSITORY = Path(__file__).parent.parent


def part_of(path):
    """Return the layer's name: backend, operators, …; None for the package itself."""
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return None if first == "__init__" else first


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(node):
    """Yield (line, dotted name) of all that is imported, inside functions too."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):  # never executed
            continue
        if isinstance(child, ast.Import):
            yield from ((child.lineno, alias.name) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from ((child.lineno, f"{child.module}.{alias.name}") for alias in child.names)
        yield from imports(child)


def imports_of(path):
    return list(imports(ast.parse(path.read_text(encoding="utf-8"))))


def backward_imports(path, part):
    for line, name in imports_of(path):
        library, *inner = name.split(".")
        if library != "cofem" or not inner:
            continue
        # `from cofem import fit` takes a name of the package, which is made of all layers
        # below the applications.
        rank = RANK.get(inner[0], RANK["fitting"])
        if rank > RANK[part]:
            yield f"{path.relative_to(ROOT)}:{line} imports {name}"


def test_every_module_has_a_layer():
    parts = {part_of(path) for path in MODULES} - {None}
    assert parts <= set(RANK), "give the new module a layer in LAYERS"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_imports_from_a_later_layer(path):
    part = part_of(path)
    if part is not None:
        assert list(backward_imports(path, part)) == []


def may_know(path, library):
    inside = path.relative_to(ROOT).with_suffix("").as_posix() + "/"
    homes = CONFINED.get(library)
    return homes is None or any(inside.startswith(home + "/") for home in homes)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_libraries_stay_where_they_belong(path):
    strays = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports_of(path)
        if not may_know(path, name.split(".")[0])
        and (path.relative_to(ROOT).as_posix(), name.split(".")[0]) not in EXCEPTIONS
    ]
    assert strays == []


def test_the_check_sees_a_backward_import(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "backend.py"
    path.write_text("def f():\n    from cofem.operators import DCT\n    from cofem import fit\n")
    assert list(backward_imports(path, "backend")) == [
        "backend.py:2 imports cofem.operators.DCT",
        "backend.py:3 imports cofem.fit",
    ]


def test_no_file_is_too_long():
    folders = (ROOT, REPOSITORY / "tests", REPOSITORY / "benchmarks")
    every = [path for folder in folders for path in folder.rglob("*.py")]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in every}
    assert len(lines) > len(MODULES), "tests and benchmarks are looked at too"
    long = {path.name: n for path, n in lines.items() if n > MOST_LINES}
    assert long == {}, "split it by idea"


def files_in(folder):
    return [path for path in folder.glob("*.py") if path.name != "__init__.py"]


def test_no_folder_is_too_full():
    folders = {path.parent for path in MODULES if path.parent.name not in MANY_FILES}
    full = {f.name: len(files_in(f)) for f in folders if len(files_in(f)) > MOST_FILES}
    assert full == {}


def rooms_of_contributing():
    """Return the rooms of every row of CONTRIBUTING's table, in its order."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("|---|---|") : text.index("Tests lie in folders")]
    rows = [line.split("|")[1] for line in table.splitlines()[1:] if line.startswith("|")]
    return [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in rows]


def rooms_of_drawing():
    text = (REPOSITORY / "docs" / "images" / "layers.svg").read_text(encoding="utf-8")
    return [set(row.split(", ")) for row in re.findall(r'font-weight="600"[^>]*>([^<]*)<', text)]


# ``python -m cofem`` is the command line by another name.
DRAWN = [layer - {"__main__"} for layer in LAYERS]


def test_the_table_for_contributors_shows_the_layers():
    rows = rooms_of_contributing()
    assert {room for row in rows for room in row} == set().union(*DRAWN)
    ranks = [RANK[room] for row in rows for room in row]
    assert ranks == sorted(ranks), "the table is in the order of the layers"


def test_the_drawing_shows_the_layers():
    assert rooms_of_drawing() == DRAWN


def test_every_room_is_there():
    assert set(RANK) == {part_of(path) for path in MODULES} - {None}


METHODS = {"CoFEM", "EM", "Woodbury", "Banded", "AMP", "VI", "Sequential"}
# From a method to its E-steps: the one place that may ask which method it is.
REGISTRIES = {"learning/moments/registry.py"}


SEARCHES = {"startswith", "endswith", "find"}
A_MESSAGE = r"str\(\w*(error|warning)\)|.*\.message"


def names_in(node):
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def questions_about_methods(tree):
    """Yield the lines that tell methods apart by their class."""
    for node in ast.walk(tree):
        asks = isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if asks and names_in(node.args[1]) & METHODS:
            yield node.lineno


def read_messages(tree):
    """Yield the lines that look for words in a message."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Eq)):
            sides = [node.left, *node.comparators]
            texts = [s for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)]
            messages = [s for s in sides if isinstance(s, ast.Attribute) and s.attr == "message"]
            if texts and messages:
                yield node.lineno
        searches = isinstance(node, ast.Attribute) and node.attr in SEARCHES
        if searches and re.fullmatch(A_MESSAGE, ast.unparse(node.value)):
            yield node.lineno


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_asks_for_a_method_s_class_or_reads_a_message(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.relative_to(ROOT).as_posix() not in REGISTRIES:
        assert list(questions_about_methods(tree)) == []
    assert list(read_messages(tree)) == []


def test_these_checks_see_what_they_look_for():
    asks = ast.parse("if isinstance(method, (CoFEM, str)): pass")
    assert list(questions_about_methods(asks)) == [1]
    reads = ast.parse("a = 'diverged' in post.message\nb = str(error).startswith(name)\n")
    assert list(read_messages(reads)) == [1, 2]


def is_public(path):
    return not any(piece.startswith("_") for piece in module_name(path).split("."))


def module_name(path):
    pieces = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["cofem", *(piece for piece in pieces if piece != "__init__")])


PACKAGES = [path for path in MODULES if path.name == "__init__.py" and is_public(path)]


@pytest.mark.parametrize("path", PACKAGES, ids=module_name)
def test_packages_that_import_names_say_what_is_public(path):
    if imports_of(path):
        assert hasattr(importlib.import_module(module_name(path)), "__all__")


@pytest.mark.parametrize("path", [path for path in MODULES if is_public(path)], ids=module_name)
def test_all_is_sorted_and_real(path):
    module = importlib.import_module(module_name(path))
    names = getattr(module, "__all__", [])

    # ruff's order: CONSTANTS, Classes, functions.
    def order(name):
        return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)

    assert list(names) == sorted(names, key=order)
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []
