"""What all pictures share: pages, axes, and lines that differ in grey print too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cofem.files import atomic_write
from cofem.paper.contestants import Contestant

DOTS_PER_INCH = 150


def page(width: float, height: float) -> Figure:
    """Return a figure that pyplot does not know of."""
    return Figure(figsize=(width, height), layout="constrained")


def draw_line(ax: Any, values: Mapping[Any, float], contestant: Contestant) -> None:
    """Draw one method's means."""
    ax.plot(
        list(values.keys()),
        list(values.values()),
        color=contestant.color,
        marker=contestant.marker,
        linestyle=contestant.line,
        markersize=9 if contestant.marker == "*" else 6,
        markerfacecolor="none" if contestant.marker in "Dsv^" else contestant.color,
        linewidth=1.4,
        label=contestant.name,
    )


def percentages(ax: Any) -> None:
    """Mark a logarithmic axis of errors with plain numbers."""
    at = [0.5, 1, 2, 5, 10, 20, 50, 100]
    ax.set_yscale("log")
    ax.set_ylim(min(0.5, ax.get_ylim()[0]), max(150, ax.get_ylim()[1]))
    ax.set_yticks(at, [f"{value:g}" for value in at])
    ax.tick_params(axis="y", which="minor", left=False, labelleft=False)


def finish(ax: Any, title: str, x: str, y: str) -> None:
    """Name panel and axes."""
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(which="major", alpha=0.3, linewidth=0.6)


def powers_of_two(ax: Any, sizes: list[int]) -> None:
    """Mark the sizes on a logarithmic axis as powers of two.

    The limits are set here, not by what is drawn: a method may end before the largest size.
    """
    margin = max(1.1, (max(sizes) / min(sizes)) ** 0.05)
    ax.set_xscale("log", base=2)
    ax.set_xlim(min(sizes) / margin, max(sizes) * margin)
    ax.set_xticks(sizes, [f"$2^{{{size.bit_length() - 1}}}$" for size in sizes])
    ax.minorticks_off()


def common_legend(figure: Figure, axes: Any) -> None:
    """Put one legend below all panels."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center",
        ncols=min(4, len(entries)), handlelength=4, fontsize=9,
    )  # fmt: skip


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG whole or not at all."""
    with atomic_write(path) as stream:
        figure.savefig(stream, format="png", dpi=DOTS_PER_INCH)
    return path
