"""What the comparisons with other fields' tools share: seeds, times, medians."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from common import Table

# A method gets no further problem after this many CPU seconds; the table says how many it had.
SECONDS = 30.0


def optional(name: str) -> Any:
    """Return a module of another project, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns and its CPU seconds; warnings are counted by nobody here.

    With one thread for everybody that is the time on an idle machine, whatever else runs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        found = work()
        return found, time.process_time() - began


def compare(
    title: str,
    measures: Sequence[str],
    methods: dict[str, Callable[[Any], Any] | None],
    problems: Sequence[Any],
    judge: Callable[[Any, Any], Sequence[float]],
    centre: Literal["median", "mean"] = "median",
) -> Table:
    """Run every method on every problem and return a table of medians, or means.

    Parameters
    ----------
    title : str
    measures : sequence of str
        Names of what ``judge`` returns for a problem and an answer.
    methods : dict
        From a problem to an answer; None where the tool is not installed.
    problems : sequence
        One for each seed.
    judge : callable
    centre : {"median", "mean"}
        Seconds are medians always.
    """
    rows: list[list[Any]] = []
    for name, method in methods.items():
        if method is None:
            rows.append([name, *["not installed"] * (len(measures) + 1)])
            continue
        judged, seconds = [], []
        for problem in problems:
            found, took = timed(lambda method=method, problem=problem: method(problem))
            judged.append(judge(problem, found))
            seconds.append(took)
            if sum(seconds) > SECONDS:
                break
        if len(judged) < len(problems):
            name = f"{name} (only {len(judged)})"
        values = getattr(np, centre)(np.asarray(judged, float), axis=0)
        rows.append([name, *(f"{value:.3g}" for value in values), f"{np.median(seconds):.2f}"])
    columns = ("method", *measures, "CPU seconds")
    return Table(f"{title}: {centre}s of {len(problems)} problems", columns, rows)
