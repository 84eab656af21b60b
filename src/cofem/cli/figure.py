"""Figures that commands write, without touching the user's matplotlib backend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150


def check_pictures(figure: Path | None, page: Path | None) -> None:
    """Refuse a figure or a page that cannot be written, before the work is done."""
    from cofem.files import check_writable

    if figure is not None:
        check_figure(figure)
    if page is not None:
        if page.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"report: {page} does not end in .html")
        check_writable(page, "report")


def check_figure(path: str | os.PathLike[str]) -> str:
    """Return the format that the ending of ``path`` names; refuse what cannot be written.

    Examples
    --------
    >>> check_figure("picture.PNG")
    'png'
    """
    from matplotlib.backend_bases import FigureCanvasBase

    from cofem.files import check_writable

    ending = Path(path).suffix.lower().removeprefix(".")
    known = FigureCanvasBase.get_supported_filetypes()
    if ending not in known:
        raise ValueError(f"figure: {path} does not end in one of .{', .'.join(sorted(known))}")
    check_writable(path, "figure")
    return ending


def new_figure(height: float) -> Figure:
    """Return a figure that pyplot does not know of, as wide as a page."""
    from matplotlib.figure import Figure

    return Figure(figsize=(9, height), layout="constrained")


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure whole or not at all, in the format that its ending names.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(new_figure(2), Path(folder, "empty.png"))
    ...     [file.name for file in Path(folder).iterdir()]
    ['empty.png']
    """
    from cofem.files import atomic_write

    ending = check_figure(path)
    with atomic_write(path) as stream:
        figure.savefig(stream, format=ending, dpi=DOTS_PER_INCH)
