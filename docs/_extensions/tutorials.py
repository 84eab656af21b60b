"""Run a tutorial, and make a page and a notebook of it.

A tutorial is a plain Python file. Its docstring is the title; cells that begin with
``# %% [markdown]`` are text, the others code (the format that notebook editors open).
``sphinx_tutorials`` calls this when the site is built, the tests call ``run``.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "tutorials"
TEXT, CODE = "# %% [markdown]", "# %%"
# Ends a tutorial that draws: run as a script it shows its figures. A page has them already.
SHOW = "plt.show()"


@dataclass
class Cell:
    """A piece of a tutorial, and what came of it."""

    kind: str
    source: str
    line: int
    printed: str = ""
    figures: list[bytes] = field(default_factory=list)


def tutorials() -> list[Path]:
    """Return the tutorials."""
    return sorted(FOLDER.glob("*.py"))


def title(text: str) -> str:
    """Return the docstring of a tutorial without its full stop."""
    return (ast.get_docstring(ast.parse(text)) or "").rstrip(".")


def cells(text: str) -> list[Cell]:
    """Split a tutorial; what stands before the first mark is the docstring."""
    found: list[Cell] = []
    for number, line in enumerate(text.splitlines()):
        if line.rstrip() in (TEXT, CODE):
            found.append(Cell("text" if line.rstrip() == TEXT else "code", "", number + 1))
        elif found:
            found[-1].source += line + "\n"
    for cell in found:
        if cell.kind == "text":
            lines = cell.source.splitlines()
            strays = [line for line in lines if line and not line.startswith("#")]
            if strays:
                raise ValueError(f"text cells are comments, found {strays[0]!r}")
            cell.source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
    return [cell for cell in found if cell.source.strip()]


def run(path: Path) -> Iterator[Cell]:
    """Run the cells of a tutorial one after the other and yield them with their output."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    plt.show = lambda **_: None  # there is no screen, and the figures are kept below

    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path.read_text(encoding="utf-8")):
        if cell.kind == "code":
            # Empty lines in front: errors name the line of the file.
            code = compile("\n" * cell.line + cell.source, str(path), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, names)
            cell.printed = printed.getvalue()
            for number in plt.get_fignums():
                picture = io.BytesIO()
                plt.figure(number).savefig(picture, dpi=110, bbox_inches="tight")
                cell.figures.append(picture.getvalue())
            plt.close("all")
        yield cell


def page(path: Path, done: list[Cell]) -> tuple[str, dict[str, bytes]]:
    """Return a tutorial that was run as Markdown, and its pictures by name."""
    heading = title(path.read_text(encoding="utf-8"))
    parts, pictures = [f"# {heading}"], {}
    for cell in done:
        shown = _shown(cell)
        if cell.kind == "text":
            parts.append(cell.source.strip())
        elif shown != SHOW:
            parts.append(f"```python\n{shown}\n```")
        if cell.printed.strip():
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        for figure in cell.figures:
            name = f"{path.stem}_{len(pictures) + 1}.png"
            pictures[name] = figure
            parts.append(f"![{heading}, figure {len(pictures)}](images/{name})")
    parts.append(
        f"*This page as {{download}}`a notebook <notebooks/{path.stem}.ipynb>` or "
        f"{{download}}`a Python file <{path.name}>`. It runs as a test.*"
    )
    return "\n\n".join(parts) + "\n", pictures


def notebook(path: Path, done: list[Cell]) -> str:
    """Return a tutorial that was run as a Jupyter notebook, with its output."""
    heading = title(path.read_text(encoding="utf-8"))
    made = [_cell("markdown", f"# {heading}", 0)]
    for cell in done:
        if cell.kind == "text":
            made.append(_cell("markdown", cell.source.strip(), len(made)))
        elif _shown(cell) != SHOW:
            made.append(_cell("code", _shown(cell), len(made), _outputs(cell)))
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _shown(cell: Cell) -> str:
    return cell.source.replace("  # fmt: skip", "").strip()


def _cell(kind: str, source: str, number: int, outputs: list[Any] | None = None) -> dict[str, Any]:
    made = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
    if kind == "code":
        made |= {"execution_count": None, "outputs": outputs or []}
    return made


def _outputs(cell: Cell) -> list[Any]:
    found: list[Any] = []
    if cell.printed:
        found.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
    for figure in cell.figures:
        data = {"image/png": base64.b64encode(figure).decode("ascii")}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    return found
