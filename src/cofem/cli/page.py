"""``cofem report``: a saved posterior as one page that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def page(
    posterior: Annotated[Path, typer.Argument(help="A posterior saved by cofem (.npz).")],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Where the page goes (.html).")
    ] = Path("report.html"),
) -> None:
    """Write one self-contained HTML page: figures, settings, convergence, versions.

    The page holds its pictures and needs no network.
    """
    from cofem import load
    from cofem.files import atomic_write, check_writable
    from cofem.page import report

    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"out: {out} does not end in .html")
    check_writable(out, "out")
    text = report(load(posterior), posterior.name)
    with atomic_write(out) as stream:
        stream.write(text.encode("utf-8"))
    typer.echo(f"wrote {out}")
