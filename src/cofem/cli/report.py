"""What a command prints: a table for people, or one JSON object for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any


def show_table(title: str, rows: Mapping[str, str]) -> None:
    """Print a table of names and values on the output stream."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("name", style="bold")
    table.add_column("value", justify="right", overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)


def show_json(facts: Mapping[str, Any]) -> None:
    """Print one JSON object on the output stream; what is not finite becomes null."""
    print(json.dumps({name: plain(value) for name, value in facts.items()}, allow_nan=False))


def plain(value: Any) -> Any:
    """Return ``value`` in the types that JSON has.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.float64(2.0)), plain(float("nan")), plain(np.arange(2))
    (2.0, None, [0, 1])
    """
    import numpy as np

    from cofem import backend

    if backend.is_array(value):
        value = backend.to_numpy(value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def number(value: Any, digits: int = 6) -> str:
    """Return ``value`` for a table; several values are separated by commas.

    Examples
    --------
    >>> number(10000.0), number(None), number([1.0, 2.5]), number(1234567)
    ('10000', '—', '1, 2.5', '1,234,567')
    """
    value = plain(value)
    if value is None:
        return "—"
    if isinstance(value, list):
        return ", ".join(number(item, digits) for item in value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def peak_memory_mib() -> float | None:
    """Return the most memory this process has held, in MiB; None where the system does not tell.

    Examples
    --------
    >>> peak = peak_memory_mib()
    >>> peak is None or peak > 1
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
