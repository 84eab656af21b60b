"""A statement, whether it held, and the numbers; and the few statistics that it takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """One statement and what the trials say about it.

    Attributes
    ----------
    text : str
        The statement, with the rule by which it is judged.
    held : bool or None
        None: this run does not say, for instance because it was a quick one.
    evidence : str
        Numbers computed from the CSV.

    Examples
    --------
    >>> str(Claim("two is more than one", True, "2 > 1"))
    '**Held:** two is more than one. 2 > 1.'
    """

    text: str
    held: bool | None
    evidence: str

    @property
    def verdict(self) -> str:
        """The word for it."""
        return {True: "Held", False: "Did not hold", None: "Not measured"}[self.held]

    def __str__(self) -> str:
        return f"**{self.verdict}:** {self.text}. {self.evidence}."


def means(
    rows: Iterable[Row], x: str, value: str, where: Callable[[Row], bool] = lambda row: True
) -> dict[Any, float]:
    """Return the mean of a column for every x, in the order of x.

    Examples
    --------
    >>> rows = [{"f": 0.2, "e": 4.0}, {"f": 0.1, "e": 1.0}, {"f": 0.1, "e": 3.0}]
    >>> means(rows, "f", "e")
    {0.1: 2.0, 0.2: 4.0}
    """
    groups: dict[Any, list[float]] = {}
    for row in rows:
        if where(row):
            groups.setdefault(row[x], []).append(float(row[value]))
    return {at: statistics.fmean(groups[at]) for at in sorted(groups)}


def medians(rows: Iterable[Row], x: str, value: str) -> dict[Any, float]:
    """Return the median of a column for every x, in the order of x.

    Examples
    --------
    >>> medians([{"K": 1, "e": 4.0}, {"K": 1, "e": 1.0}, {"K": 1, "e": 3.0}], "K", "e")
    {1: 3.0}
    """
    groups: dict[Any, list[float]] = {}
    for row in rows:
        groups.setdefault(row[x], []).append(float(row[value]))
    return {at: statistics.median(groups[at]) for at in sorted(groups)}


def paired(
    rows: Iterable[Row], first: str, second: str, on: Sequence[str], value: str
) -> list[tuple[float, float]]:
    """Return the values of two methods on the same problems.

    Examples
    --------
    >>> rows = [{"method": m, "trial": t, "e": e} for m, t, e in
    ...         [("EM", 0, 1.0), ("AMP", 0, 2.0), ("EM", 1, 3.0)]]
    >>> paired(rows, "EM", "AMP", ["trial"], "e")
    [(1.0, 2.0)]
    """
    table: dict[str, dict[tuple[Any, ...], float]] = {first: {}, second: {}}
    for row in rows:
        if row["method"] in table:
            table[row["method"]][tuple(row[name] for name in on)] = float(row[value])
    shared = sorted(table[first].keys() & table[second].keys(), key=str)
    return [(table[first][k], table[second][k]) for k in shared]


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Return p of the power law y ~ x^p, by least squares of the logarithms.

    Examples
    --------
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    if len(x) < 2:
        return math.nan
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def listing(values: dict[Any, float], digits: int = 3) -> str:
    """Write a small table on a line.

    Examples
    --------
    >>> listing({0.1: 1.23456, 2.0: 20.0})
    '0.1: 1.23, 2: 20'
    """
    return ", ".join(
        f"{at:g}: {value:.{digits}g}" if isinstance(at, float) else f"{at}: {value:.{digits}g}"
        for at, value in values.items()
    )
