"""The picture of figure 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cofem.paper.claims import Row, means, medians
from cofem.paper.contestants import OURS, PAPER
from cofem.paper.drawing import finish, page, powers_of_two, save

SPREAD = (
    ("theorem", "Theorem 1, Θ = I", "#0072B2", "s", "--"),
    ("theorem_best", "Theorem 1, best Θ", "#009E73", "v", "-."),
    ("lemma", "Lemma 1, exact", "#E69F00", "x", ":"),
    ("monte_carlo", "Monte Carlo", "#000000", "o", "-"),
)
SHARES = (
    ("h_bound", "bound for every Φ, 1/(2√K)", "#D55E00", "*", "--"),
    ("h_unscaled", "unscaled probes", "#0072B2", "D", ":"),
    ("h_scaled", "probes scaled by √α", "#000000", "o", "-"),
)
STEPS = (
    ("without_100", "none, T = 100", "#D55E00", "v", "--"),
    ("without_50", "none, T = 50", "#E69F00", "^", "-."),
    ("with_100", "diagonal, T = 100", "#0072B2", "s", ":"),
    ("with_50", "diagonal, T = 50", "#000000", "o", "-"),
)


def draw(rows: Mapping[str, Sequence[Row]], out: Path) -> Path:
    """Draw (a), our companion to it, and (b) for both settings."""
    figure = page(11, 8.5)
    axes = figure.subplots(2, 2)
    paper = [row for row in rows["a"] if row["method"] == PAPER.name]
    _probes(axes[0, 0], paper, SPREAD)
    finish(axes[0, 0], "(a) largest standard deviation of $s_j$", "probes K", r"max $\nu_j$")
    _probes(axes[0, 1], paper, SHARES)
    finish(
        axes[0, 1], r"(a′) the same of $h_j = \alpha_j s_j$, between 0 and 1", "probes K",
        r"max $\alpha_j\nu_j$",
    )  # fmt: skip
    for ax, contestant in zip(axes[1], (PAPER, OURS), strict=True):
        mine = [row for row in rows["b"] if row["method"] == contestant.name]
        for column, *style in STEPS:
            _plot(ax, means(mine, "D", column), *style)
        powers_of_two(ax, sorted({row["D"] for row in mine}))
        ax.set_yscale("log")
        finish(ax, f"(b) {contestant.name}", "unknowns D", "CG steps U")
        ax.set_yticks([10, 20, 50, 100, 200], ["10", "20", "50", "100", "200"])
    for ax in axes.ravel():
        ax.legend(fontsize=8, handlelength=4)
    return save(figure, out / "fig3.png")


def _probes(ax: Any, rows: Sequence[Row], lines: Sequence[tuple[str, ...]]) -> None:
    """Draw medians over the problems, and each problem's last line as dots."""
    for column, *style in lines:
        _plot(ax, medians(rows, "K", column), *style)
    ax.scatter(
        [row["K"] for row in rows], [row[lines[-1][0]] for row in rows], s=12, color="#888888",
        zorder=3, label="each problem",
    )  # fmt: skip
    ax.set_xscale("log", base=2)
    at = sorted({row["K"] for row in rows})
    ax.set_xticks(at, [str(K) for K in at])
    ax.minorticks_off()
    ax.set_yscale("log")


def _plot(
    ax: Any, values: Mapping[Any, float], label: str, color: str, marker: str, line: str
) -> None:
    ax.plot(
        list(values), list(values.values()), label=label, color=color, marker=marker,
        linestyle=line, markerfacecolor="none" if marker in "sDv^" else color,
    )  # fmt: skip
