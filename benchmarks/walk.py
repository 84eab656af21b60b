"""The walk of one ``fit(DCT, y)`` through the files of cofem, in the order of first entry.

    python benchmarks/walk.py                 # the walk of this version
    python benchmarks/walk.py --svg walk.svg  # and its drawing
    PYTHONPATH=OLD/src python benchmarks/walk.py  # the walk of another version

A file counts when one of its functions runs while ``fit`` runs for the second time: everything is
imported before, and operators have what they keep of themselves. The layers are those of
``tests/test_layout.py`` of the version that is measured. The walk turns back where a file imports
from a later layer, or calls a function that a later layer has handed to it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from xml.sax.saxutils import escape

import cofem
from cofem import simulate

ROOT = Path(cofem.__file__).parent
LAYOUT = ROOT.parent.parent / "tests" / "test_layout.py"
D, SEED = 3000, 0


def layers() -> list[set[str]]:
    """Read LAYERS from the test of the version that is measured."""
    for node in ast.parse(LAYOUT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{LAYOUT} defines no LAYERS")


def part_of(file: str) -> str:
    """Return the first folder or file inside the package."""
    return file.split("/")[0].removesuffix(".py")


def walk(call: Callable[[], Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the files of cofem whose functions run during the call, by first entry.

    And all calls from one of these files into another: (caller, callee and its function).
    """
    files: dict[str, None] = {}
    calls: dict[tuple[str, str], None] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_name
        if event != "call" or name == "<module>" or not is_ours(frame):
            return
        callee = file_of(frame)
        files.setdefault(callee)
        back = frame.f_back
        while back is not None and not is_ours(back):
            back = back.f_back
        if back is not None:
            calls.setdefault((file_of(back), f"{callee}:{name}"))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(files), list(calls)


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(ROOT))


def file_of(frame: FrameType) -> str:
    return Path(frame.f_code.co_filename).relative_to(ROOT).as_posix()


def later_calls(calls: list[tuple[str, str]], rank: dict[str, int]) -> list[str]:
    """Return the calls into a later layer."""
    return [
        f"{caller} calls {callee}"
        for caller, callee in calls
        if rank[part_of(callee.split(":")[0])] > rank[part_of(caller)]
    ]


def later_imports(files: list[str], rank: dict[str, int]) -> list[str]:
    """Return the imports of these files that point to a later layer, inside functions too."""
    found = []
    for file in files:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        hidden = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for child in ast.walk(node)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or id(node) in hidden:
                continue
            parts = (node.module or "").split(".")
            if parts[0] != "cofem":
                continue
            targets = parts[1:2] or [alias.name for alias in node.names]
            for target in targets:
                if rank.get(target, -1) > rank.get(part_of(file), len(rank)):
                    found.append(f"{file}:{node.lineno} imports cofem.{target}")
    return found


def draw(files: list[str], rank: dict[str, int], order: list[set[str]]) -> str:
    """Return the walk as SVG: a row for every file in order of entry, a column for every layer."""
    parts = {part_of(file) for file in files}
    columns = ["/".join(sorted(layer & parts)) for layer in order if layer & parts]
    columns = [name if len(name) < 14 else f"{name[:12]}…" for name in columns]
    place = {
        rank[next(iter(layer & parts))]: i
        for i, layer in enumerate([layer for layer in order if layer & parts])
    }
    step, row, top, left = 86, 15, 40, 20
    width, height = left + step * len(columns) + 250, top + row * len(files) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-size="11" '
        "font-family=\"system-ui, 'DejaVu Sans', sans-serif\">",
        f"  <title>The walk of fit(DCT, y): {len(files)} files</title>",
        f'  <rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
    ]
    for i, name in enumerate(columns):
        x = left + step * i + step / 2
        lines.append(
            f'  <text x="{x:g}" y="22" text-anchor="middle" font-weight="600" '
            f'fill="#111">{escape(name)}</text>'
        )
        lines.append(f'  <path d="M{x:g} {top - 8} V{height - 10}" stroke="#ddd"/>')
    points = []
    for i, file in enumerate(files):
        x = left + step * place[rank[part_of(file)]] + step / 2
        y = top + row * i
        points.append((x, y))
        lines.append(
            f'  <text x="{left + step * len(columns) + 10}" y="{y + 4}" '
            f'fill="#444">{i + 1}. {escape(file)}</text>'
        )
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    lines.append(f'  <polyline points="{path}" fill="none" stroke="#0072B2" stroke-width="1.4"/>')
    lines += [f'  <circle cx="{x:g}" cy="{y:g}" r="3" fill="#0072B2"/>' for x, y in points]
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--svg", type=Path, help="draw the walk here")
    parser.add_argument("--ard", action="store_true", help='with prior="ard" and known noise')
    arguments = parser.parse_args()
    problem = simulate.dct(D, SEED)

    options = {"prior": "ard", "noise_precision": problem.noise_precision} if arguments.ard else {}

    def call() -> Any:
        return cofem.fit(problem.phi, problem.y, **options)

    call()  # imports and compiles what is imported and compiled on the way
    files, calls = walk(call)
    order = layers()
    rank = {name: i for i, layer in enumerate(order) for name in layer}
    for i, file in enumerate(files, 1):
        print(f"{i:3d}  {file}")
    imports, turns = later_imports(files, rank), later_calls(calls, rank)
    print(f"{len(files)} files, {len(imports)} imports from a later layer, ", end="")
    print(f"{len(turns)} calls into one")
    for turn in imports + turns:
        print(f"     {turn}")
    if arguments.svg is not None:
        arguments.svg.write_text(draw(files, rank, order), encoding="utf-8")


if __name__ == "__main__":
    main()
