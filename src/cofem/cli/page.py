"""``cofem report``: a saved posterior as one page that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def page(
    posterior: Annotated[
        Path, typer.Argument(metavar="POSTERIOR.npz", help="A posterior saved by cofem.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PAGE.html", help="Where the page goes.")
    ] = Path("report.html"),
) -> None:
    """Write one self-contained HTML page: figures, settings, convergence, versions.

    The page holds its pictures and needs no network.

    Example:

        cofem report out.npz -o report.html
    """
    from cofem import load
    from cofem.files import atomic_write, check_writable
    from cofem.result.page import report

    if output.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output: {output} does not end in .html")
    check_writable(output, "output")
    text = report(load(posterior), posterior.name)
    with atomic_write(output) as stream:
        stream.write(text.encode("utf-8"))
    typer.echo(f"wrote {output}")
