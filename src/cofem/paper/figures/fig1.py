"""Figure 1: accuracy against sparsity, undersampling and the correlation of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cofem import simulate
from cofem.paper.claims import Row, means
from cofem.paper.contestants import (
    AMP,
    CHECK,
    EXACT,
    EXACT_FROM_DATA,
    LEARNED,
    OURS,
    PAPER,
    SEQUENTIAL,
    VI,
    Contestant,
    run_contestant,
)
from cofem.paper.drawing import common_legend, draw_line, finish, page, percentages, save
from cofem.paper.figures.fig1_claims import check
from cofem.paper.report import write_page
from cofem.paper.study import Job, Outcome, Run, open_files, run_jobs, selected

SIZE, ITERATIONS = 1024, 50
CONTESTANTS = (EXACT, AMP, VI, SEQUENTIAL, PAPER, OURS, LEARNED)

KEY = ("x", "seed", "method")
COLUMNS = {
    "x": float, "seed": int, "method": str, "nrmse": float, "diverged": int,
    "iterations": int, "products": int, "seconds": float,
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One panel: a dictionary, what varies along its axis, and what is fixed."""

    title: str
    axis: str
    dictionary: str
    varies: str
    fixed: dict[str, Any]
    points: tuple[float, ...]
    quick_points: tuple[float, ...]

    def problem(self, x: float, seed: int) -> simulate.Problem:
        """Draw a problem at a point of the axis."""
        value = int(x) if self.varies == "undersampling" else x
        maker = getattr(simulate, self.dictionary)
        return maker(SIZE, seed, **self.fixed, **{self.varies: value})  # type: ignore[no-any-return]


SPARSITY, UNDERSAMPLING = "sparsity factor f", "undersampling rate r"
PANELS = {
    "a": Panel(
        "(a) Gaussian, N = D/4", SPARSITY, "gaussian", "sparsity", {"undersampling": 4},
        (0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14), (0.04, 0.08, 0.12),
    ),
    "b": Panel(
        "(b) DCT, N = D/3", SPARSITY, "dct", "sparsity", {"undersampling": 3},
        (0.04, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18), (0.06, 0.12, 0.16),
    ),
    "c": Panel(
        "(c) convolution, ρ = 0.04", SPARSITY, "convolution", "sparsity", {"decay": 0.04},
        (0.05, 0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.4),
    ),
    "d": Panel(
        "(d) Gaussian, f = 0.06", UNDERSAMPLING, "gaussian", "undersampling",
        {"sparsity": 0.06}, (2, 3, 4, 5, 6, 7), (3, 4, 6),
    ),
    "e": Panel(
        "(e) DCT, f = 0.12", UNDERSAMPLING, "dct", "undersampling", {"sparsity": 0.12},
        (2, 3, 4, 5), (2, 3, 4),
    ),
    "f": Panel(
        "(f) convolution, f = 0.2", "decay ρ", "convolution", "decay", {"sparsity": 0.2},
        (0.02, 0.04, 0.08, 0.16, 0.32), (0.02, 0.04, 0.16),
    ),
}  # fmt: skip


def plan(run: Run) -> list[Job]:
    """List every trial, problem by problem: an interrupted run has all points of its first ones."""
    return [
        Job(name, {"x": float(x), "seed": run.seed + trial, "method": contestant.name})
        for trial in range(run.trials)
        for name, panel in PANELS.items()
        for x in (panel.quick_points if run.quick else panel.points)
        for contestant in (*CONTESTANTS, *extras(name, trial))
    ]


def extras(panel: str, trial: int) -> list[Contestant]:
    """Return exact EM in its other form, once a point, and from our start where it is cheap."""
    other_form = [CHECK] if trial == 0 else []
    return other_form if panel in "cf" else [*other_form, EXACT_FROM_DATA]


def measure(panel: str, x: float, seed: int, method: str) -> Row:
    """Make one trial."""
    return run_contestant(method, PANELS[panel].problem(x, seed), ITERATIONS, seed)


def run_figure(run: Run) -> Outcome:
    """Make what is missing, then draw and judge everything."""
    files = open_files(run.out, "fig1", list(PANELS), COLUMNS, KEY)
    jobs = plan(run)
    run_jobs("figure 1", jobs, files, measure, workers=run.jobs, report=run.report)
    rows = selected(files, jobs)
    claims = check(rows)
    picture = draw(rows, run)
    setting = [
        f"D = {SIZE}, σ = 0.01 and known, {ITERATIONS} iterations, {run.trials} trials a point, "
        f"seeds from {run.seed}; “{LEARNED.name}” is cofem.fit(phi, y) without arguments: told "
        "nothing, and it ends by itself",
        "EM/IRLS, AMP (10 inner loops), VI and CoFEM in the paper's setting start at α = 1; "
        "our default starts from the scale of the data, and EM/IRLS runs from there too on "
        "Gaussian and DCT; Seq runs until no step raises the evidence",
        "NRMSE is 100 ‖μ − z‖/‖z‖; every trial is in fig1a.csv to fig1f.csv",
    ]
    path = write_page(run.out / "fig1.md", "Figure 1: accuracy", run, setting, [picture], claims)
    return Outcome(path, (picture,), tuple(claims))


def draw(rows: dict[str, list[Row]], run: Run) -> Any:
    """Draw the six panels in the paper's arrangement."""
    figure = page(12, 7.6)
    axes = figure.subplots(2, 3).ravel()
    for ax, (name, panel) in zip(axes, PANELS.items(), strict=True):
        for contestant in (*CONTESTANTS, EXACT_FROM_DATA):
            mine = [row for row in rows[name] if row["method"] == contestant.name]
            if mine:
                draw_line(ax, means(mine, "x", "nrmse"), contestant)
        percentages(ax)
        if panel.varies == "decay":
            ax.set_xscale("log")
        at = sorted({row["x"] for row in rows[name]})
        ax.set_xticks(at, [f"{x:g}" for x in at])
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        finish(ax, panel.title, panel.axis, "NRMSE [%]")
    common_legend(figure, axes)
    return save(figure, run.out / "fig1.png")
