"""The pictures of figure 2: one for time, one for memory, each with six panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cofem.paper.claims import Row, means
from cofem.paper.contestants import ALL
from cofem.paper.drawing import common_legend, draw_line, finish, page, powers_of_two, save
from cofem.paper.isolated import DONE

MIB = float(1 << 20)
# The marks of stopped methods stand below each other, at this share of a panel's height,
# from its top edge on.
STOPPED_LINE, STOPPED_EDGE = 0.045, 0.04


def draw(
    rows: Mapping[str, Sequence[Row]], panels: Mapping[str, Any], out: Path, clock: str
) -> list[Path]:
    """Draw time and memory in the paper's arrangement."""
    time = "processor time [s]" if clock == "cpu" else "time [s]"
    return [
        _picture(rows, panels, out / "fig2_time.png", "seconds", time),
        _picture(rows, panels, out / "fig2_memory.png", "mebibytes", "peak memory [MiB]"),
    ]


def _picture(
    rows: Mapping[str, Sequence[Row]],
    panels: Mapping[str, Any],
    path: Path,
    value: str,
    label: str,
) -> Path:
    figure = page(12, 8)
    axes = figure.subplots(2, 3).ravel()
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        found = [{**row, "mebibytes": max(row["peak_bytes"], 1e5) / MIB} for row in rows[name]]
        for contestant in panel.contestants:
            mine = [row for row in found if row["method"] == contestant.name]
            ended = means(mine, "D", value, lambda row: row["status"] == DONE)
            draw_line(ax, ended, ALL[contestant.name])
        powers_of_two(ax, sorted({row["D"] for row in found}))
        stopped = _stopped(found)
        _scale(ax, [row[value] for row in found if row["status"] == DONE], len(stopped))
        _mark_stopped(ax, stopped)
        how = "to 2 % NRMSE" if panel.to_target else "30 iterations"
        finish(ax, f"{panel.title}, {how}", "unknowns D", label)
    common_legend(figure, axes)
    return save(figure, path)


def _stopped(rows: Sequence[Row]) -> dict[str, tuple[int, str]]:
    """Return for every method that was stopped the first such row's size and reason."""
    places: dict[str, tuple[int, str]] = {}
    for row in rows:
        if row["status"] not in (DONE, "not run"):
            places.setdefault(row["method"], (row["D"], row["status"]))
    return places


def _scale(ax: Any, values: Sequence[float], marks: int) -> None:
    """Scale the axis so that it has labels of its own, with room at the top for the marks."""
    ax.set_yscale("log")
    ax.tick_params(axis="y", which="minor", labelleft=False)
    if not values:
        return
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))
    if not marks:
        ax.set_ylim(10.0**low, 10.0 ** math.ceil(high))
        return
    free = 1 - 2 * STOPPED_EDGE - STOPPED_LINE * marks
    ax.set_ylim(10.0**low, 10 ** (low + max(1.0, (high - low) / free)))


def _mark_stopped(ax: Any, places: Mapping[str, tuple[int, str]]) -> None:
    """Put a cross where a method was stopped, and say which and why, a line for each method."""
    top, middle = ax.get_xaxis_transform(), math.prod(ax.get_xlim()) ** 0.5
    for line, (name, (D, status)) in enumerate(places.items()):
        height, left = 1 - STOPPED_EDGE - STOPPED_LINE * line, middle < D
        ax.plot(D, height, "x", color=ALL[name].color, transform=top, markersize=6, mew=2)
        ax.annotate(
            f"{name.replace('CoFEM, ', '')} ({status})", (D, height), xycoords=top,
            textcoords="offset points", xytext=(-7 if left else 7, 0),
            ha="right" if left else "left", va="center", fontsize=7,
        )  # fmt: skip
