"""The history of an evidence that is a running sum: it never falls, except by rounding."""

from __future__ import annotations

# Relative size of the rounding error of a log evidence.
ROUNDING = 1e-9


def level_rounding(recorded: list[float], last: float) -> None:
    """Put the evidence computed afresh at the end of the record, and level what is rounding.

    Moves add their gains to a running sum, which is computed afresh now and then. A sum
    that was too large by its own rounding makes the fresh value look like a fall, though
    no move lowers the evidence. Falls that rounding explains are taken from the values
    before; a larger one would be a fault, and stays to be seen.

    Examples
    --------
    >>> record = [-100.0, -50.0 + 1e-12, -50.0 + 2e-12]
    >>> level_rounding(record, -50.0)
    >>> record
    [-100.0, -50.0, -50.0]
    """
    recorded[-1] = last
    for k in range(len(recorded) - 2, -1, -1):
        fall = recorded[k] - recorded[k + 1]
        if 0 < fall <= ROUNDING * (1 + abs(recorded[k])):
            recorded[k] = recorded[k + 1]
