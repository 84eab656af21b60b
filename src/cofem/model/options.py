"""Checks of the numbers that a method's options hold."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any


def whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number as an int; an error names the argument.

    Examples
    --------
    >>> whole_number("max_iter", 5, least=1)
    5
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return number


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuse what is not a finite number above ``low`` and at most ``high``."""
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not (low < number <= high and math.isfinite(number)):
        raise ValueError(
            f"{name} must be a number above {low:g} and at most {high:g}, got {value!r}"
        )


def positive_or_none(name: str, value: Any) -> None:
    """Refuse what is neither None nor a positive, finite number."""
    if value is not None:
        between(name, value, 0.0, float("inf"))


def zero_or_positive(name: str, value: Any) -> None:
    """Refuse what is not a finite number that is zero or positive."""
    if not (isinstance(value, numbers.Real) and 0 <= float(value) < math.inf):
        raise ValueError(f"{name} must be zero or positive, got {value!r}")
