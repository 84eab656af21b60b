"""Run a function in a process of its own, to measure its peak memory or to limit its time.

The child is this file run as a script: ``isolated.py MODULE FUNCTION ARGUMENTS``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cofem.paper.isolated import peak_memory


@dataclass(frozen=True)
class Outcome:
    """What the function returned, and the memory its process needed.

    Attributes
    ----------
    value : Any
        The function's result, through JSON; None if it did not end.
    peak : int
        The largest resident memory in bytes.
    before : int
        The same when everything was imported and the function began.
    timed_out : bool
        Whether it was stopped at the limit.
    error : str
        The last line of its traceback, or nothing.
    """

    value: Any
    peak: int
    before: int = 0
    timed_out: bool = False
    error: str = ""


def isolated(
    function: Callable[..., Any],
    *,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    preload: Sequence[str] = (),
    **arguments: Any,
) -> Outcome:
    """Call a module-level function of a benchmark in a fresh process."""
    module = function.__module__
    if module == "__main__":
        raise ValueError("isolated functions must live in a module that can be imported")
    job = {"module": module, "function": function.__name__, "arguments": arguments}
    child = subprocess.Popen(
        [sys.executable, __file__, json.dumps({**job, "preload": list(preload)})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        output, errors = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        peak = peak_memory(child.pid)
        child.kill()
        child.communicate()
        return Outcome(None, peak, timed_out=True)
    if child.returncode:
        return Outcome(None, 0, error=_last_line(errors) or f"exit code {child.returncode}")
    return Outcome(**json.loads(_last_line(output)))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _serve(job: dict[str, Any]) -> dict[str, Any]:
    for name in job["preload"]:
        importlib.import_module(name)
    function = getattr(importlib.import_module(job["module"]), job["function"])
    before = peak_memory()
    value = function(**job["arguments"])
    return {"value": value, "peak": peak_memory(), "before": before}


if __name__ == "__main__":
    # Not converged is an outcome here, and its numbers are in the table.
    warnings.simplefilter("ignore")
    print(json.dumps(_serve(json.loads(sys.argv[1]))))
