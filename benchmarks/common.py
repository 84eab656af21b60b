"""What every benchmark shares: results, tables, claims, timing and the machine's description."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from cofem import backend
from cofem.paper.report import processor

GIB = 1 << 30
THREAD_VARIABLES = (
    "COFEM_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


# Where what was written by hand begins in a file of results; writing the table again keeps it.
BY_HAND = "\n## What this table does not say\n"


def written_by_hand(path: Path) -> str:
    """Return what stands under that heading in a file of results, with the heading."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, heading, rest = text.partition(BY_HAND)
    return heading + rest


@dataclass(frozen=True)
class Table:
    """Named columns and rows of numbers or words."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Claim:
    """A sentence that the numbers bear out or not; ``reached`` None: they do not say."""

    text: str
    reached: bool | None
    evidence: str

    def __str__(self) -> str:
        verdict = {True: "Reached", False: "Not reached", None: "Not measured"}[self.reached]
        return f"{verdict}: {self.text} ({self.evidence})."


@dataclass
class Result:
    """What a benchmark hands back."""

    title: str
    tables: list[Table]
    claims: list[Claim]
    notes: list[str] = field(default_factory=list)


# -- small statistics ----------------------------------------------------------


def best_of(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least seconds of several runs, and what the last one returned."""
    seconds = []
    value = None
    for _ in range(repeats):
        began = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), value


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Fit the power law y ~ x^p by least squares of the logarithms and return p."""
    if len(x) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def within(count: int, total: int, text: str) -> Claim:
    """Claim that ``text`` holds on every problem."""
    if not total:
        return Claim(text, None, "no problem qualifies")
    return Claim(text, count == total, f"{count} of {total}")


# -- output --------------------------------------------------------------------


def note(message: str) -> None:
    """Say on stderr what is running: some of it takes minutes."""
    print(f"  {message}", file=sys.stderr, flush=True)


def show(value: Any) -> str:
    """Write a cell: integers whole, other numbers with three or four digits."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return "–"
        digits = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
        tiny = value != 0 and abs(value) < 0.01
        return f"{value:.2g}" if tiny else f"{value:.{digits}f}"
    return str(value)


def print_result(result: Result, seconds: float) -> None:
    """Print tables and claims; the width of a pipe is not a reason to cut columns."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    for table in result.tables:
        rich = RichTable(title=table.title, title_justify="left")
        for index, name in enumerate(table.columns):
            rich.add_column(name, justify="left" if index == 0 else "right")
        for row in table.rows:
            rich.add_row(*map(show, row))
        console.print(rich)
    for line in [*map(str, result.claims), *result.notes, f"took {seconds:.0f} s"]:
        console.print(line, markup=False, highlight=False)


def finish(result: Result, began: float, machine: dict[str, str], path: Path | None) -> None:
    """Print a result, and write it to ``path`` with the command that made it.

    ``began`` and ``machine``: ``perf_counter()`` and :func:`describe_machine` before the work.
    """
    seconds = time.perf_counter() - began
    print_result(result, seconds)
    if path is not None:
        script, *asked = sys.argv
        command = " ".join(["python", f"benchmarks/{Path(script).name}", *asked])
        write_markdown(result, path, {"command": command, **machine}, quick=False, seconds=seconds)


def write_markdown(
    result: Result, path: Path, machine: dict[str, str], *, quick: bool, seconds: float
) -> None:
    """Write the results file whole or not at all."""
    lines = [f"# {result.title}", ""]
    if quick:
        lines += ["Quick run: fewer problems and smaller sizes than the claims speak of.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += [f"- the benchmark took {seconds:.0f} s", ""]
    for table in result.tables:
        lines += [f"## {table.title}", "", *_markdown_table(table), ""]
    lines += ["## Claims", "", *(f"- {claim}" for claim in result.claims), ""]
    if result.notes:
        lines += ["## Notes", "", *(f"- {text}" for text in result.notes), ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text("\n".join(lines), encoding="utf-8")
    unfinished.replace(path)


def _markdown_table(table: Table) -> list[str]:
    head = [list(table.columns), ["---"] + ["---:"] * (len(table.columns) - 1)]
    body = [[show(value).replace("|", "\\|") for value in row] for row in table.rows]
    return [f"| {' | '.join(row)} |" for row in [*head, *body]]


# -- the machine ---------------------------------------------------------------


def cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> dict[str, str]:
    """Date, versions and processor: what a number is worthless without."""
    set_by_user = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": ", ".join(
            [f"Python {platform.python_version()}"]
            + [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "cofem")]
        ),
        "processor": f"{processor()}, {cores()} cores, {_memory()} of memory",
        "threads": f"cofem {backend.n_threads()}; " + (", ".join(set_by_user) or "BLAS default"),
        "load average before the run": _load(),
    }


def version(package: str) -> str:
    """Return the installed version; a source tree that is not installed knows only its own."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        module = sys.modules.get(package)
        return str(getattr(module, "__version__", "not installed"))


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "an unknown amount"
    return f"{total / GIB:.0f} GiB"


def _load() -> str:
    """Other people's work on the machine makes ratios of times unsteady."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
