"""Pages that are made when the site is built: tutorials, and results of the benchmarks.

The tutorials run while the site is built, so a page shows what the library does now. With
COFEM_DOCS_KEEP=1 in the environment those that did not change are kept, to look at a page
while writing it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import tutorials

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "benchmarks" / "results"
RESULT_LINK = re.compile(r"\]\((?:\.\./)+benchmarks/results/")


def make_pages(app: Any) -> None:
    """Run the tutorials and copy the results into the folder of the pages."""
    keep = os.environ.get("COFEM_DOCS_KEEP") == "1"
    for folder in ("images", "notebooks"):
        (tutorials.FOLDER / folder).mkdir(exist_ok=True)
    there = {path.stem for path in tutorials.tutorials()}
    for page in tutorials.FOLDER.glob("*.md"):
        if page.stem not in there and page.stem != "index":
            page.unlink()  # of a tutorial that is gone
    for path in tutorials.tutorials():
        page = path.with_suffix(".md")
        if not (keep and page.exists() and page.stat().st_mtime > path.stat().st_mtime):
            make_tutorial(path, page)
    shutil.rmtree(DOCS / "results", ignore_errors=True)
    shutil.copytree(RESULTS, DOCS / "results", ignore=shutil.ignore_patterns("[!a-z]*", "*.csv"))


def make_tutorial(path: Path, page: Path) -> None:
    """Run one tutorial; write its page, its pictures and its notebook."""
    done = list(tutorials.run(path))
    text, pictures = tutorials.page(path, done)
    for name, data in pictures.items():
        (tutorials.FOLDER / "images" / name).write_bytes(data)
    notebook = tutorials.notebook(path, done)
    (tutorials.FOLDER / "notebooks" / f"{path.stem}.ipynb").write_text(notebook, encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def point_to_results(app: Any, name: str, source: list[str]) -> None:
    """Let links to benchmarks/results, which lies outside, lead to the copied pages."""
    up = "../" * name.count("/")
    source[0] = RESULT_LINK.sub(f"]({up}results/", source[0])


def setup(app: Any) -> dict[str, bool]:
    """Be called before the pages are collected, and when each is read."""
    app.connect("builder-inited", make_pages)
    app.connect("source-read", point_to_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
