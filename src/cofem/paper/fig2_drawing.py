"""The pictures of figure 2: one for time, one for memory, each with six panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cofem.paper.claims import Row, means
from cofem.paper.contestants import ALL
from cofem.paper.drawing import common_legend, draw_line, finish, page, powers_of_two, save
from cofem.paper.isolated import DONE

MIB = float(1 << 20)


def draw(rows: Mapping[str, Sequence[Row]], panels: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw time and memory in the paper's arrangement."""
    return [
        _picture(rows, panels, out / "fig2_time.png", "seconds", "time [s]"),
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
            _line(ax, mine, value, ALL[contestant.name])
        powers_of_two(ax, sorted({row["D"] for row in found}))
        ax.set_yscale("log")
        how = "to 2 % NRMSE" if panel.to_target else "30 iterations"
        finish(ax, f"{panel.title}, {how}", "unknowns D", label)
    common_legend(figure, axes)
    return save(figure, path)


def _line(ax: Any, rows: Sequence[Row], value: str, contestant: Any) -> None:
    """Draw what ended, and a cross where the method was stopped."""
    values = means(rows, "D", value, lambda row: row["status"] == DONE)
    draw_line(ax, values, contestant)
    stopped = [row for row in rows if row["status"] not in (DONE, "not run")]
    if not stopped:
        return
    row = min(stopped, key=lambda r: int(r["D"]))
    limits = {"seconds": row["time_limit"], "mebibytes": row["memory_limit"] / MIB}
    other = "time" if value == "seconds" else "memory"
    # A run stopped for the other resource has no height here: it sits where it stopped.
    height = limits[value] if other in row["status"] else max([*values.values(), 1e-3])
    ax.plot(row["D"], height, marker="x", color=contestant.color, markersize=9, mew=2, ls="none")
    ax.annotate(
        row["status"], (row["D"], height), textcoords="offset points", xytext=(4, -11),
        fontsize=7, color=contestant.color,
    )  # fmt: skip
