"""Make the tutorial pages: run every tutorial and show what it prints and draws.

A tutorial is a plain Python file. Its docstring is the title; cells that begin with
``# %% [markdown]`` are text, the others code (the format that notebook editors open).
MkDocs calls the functions ``on_…`` when the site is built; the tests call ``run``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
TEXT, CODE = "# %% [markdown]", "# %%"
# A role of a docstring as Markdown shows it: :func:`fit`.
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>~?([\w.]+)</code>")


@dataclass
class Cell:
    """A piece of a tutorial, and what came of it."""

    kind: str
    source: str
    line: int
    printed: str = ""
    figures: list[bytes] = field(default_factory=list)


def tutorials() -> list[Path]:
    """Return the tutorials, without this file."""
    return sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))


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


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a tutorial as Markdown, and its pictures by name."""
    heading = title(path.read_text(encoding="utf-8"))
    parts, pictures = [f"# {heading}"], {}
    for cell in run(path):
        if cell.kind == "text":
            parts.append(cell.source.strip())
            continue
        shown = cell.source.replace("  # fmt: skip", "").strip()
        parts.append(f"```python\n{shown}\n```")
        if cell.printed.strip():
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        for figure in cell.figures:
            name = f"{path.stem}_{len(pictures) + 1}.png"
            pictures[name] = figure
            parts.append(f"![{heading}, figure {len(pictures)}](images/{name})")
    parts.append(f"*[This page as a Python file]({path.name}). It runs as a test.*")
    return "\n\n".join(parts) + "\n", pictures


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that MkDocs has found."""
    from mkdocs.structure.files import File

    for path in tutorials():
        text, pictures = page(path)
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=text))
        for name, data in pictures.items():
            files.append(File.generated(config, f"tutorials/images/{name}", content=data))
    for path in sorted(RESULTS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"results/{path.name}", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to the results of the benchmarks, which lie outside, to their pages."""
    return markdown.replace("](../benchmarks/results/", "](results/")


def on_page_content(html: str, **_: Any) -> str:
    """Make the roles in docstrings links: to this page if it has the name, else to another."""

    def link(found: re.Match[str]) -> str:
        name = found[1]
        shown = f"<code>{name.rsplit('.', 1)[-1] if '~' in found[0] else name}</code>"
        here = re.search(rf'id="((?:[\w.]+\.)?{re.escape(name)})"', html)
        if here:
            return f'<a href="#{here[1]}">{shown}</a>'
        return f'<autoref optional identifier="{name}">{shown}</autoref>'

    return ROLE.sub(link, html)
