"""A function in a process of its own: its peak memory, and limits on its time and memory.

The child is this module run as a script, ``python -m cofem.paper.isolated JOB``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL = 0.05  # seconds between looks at the child
DONE, TIME, MEMORY, FAILED = "done", "time limit", "memory limit", "failed"


@dataclass(frozen=True)
class Ended:
    """How the process ended.

    Attributes
    ----------
    status : str
        "done", "time limit", "memory limit" or "failed".
    value : Any
        What the function returned, through JSON.
    peak : int
        The largest resident memory in bytes; 0 where the system does not tell.
    error : str
        The last line of a traceback.
    """

    status: str
    value: Any = None
    peak: int = 0
    error: str = ""


def isolated(
    function: str,
    arguments: dict[str, Any],
    *,
    time_limit: float,
    memory_limit: float,
    clock: str = "wall",
) -> Ended:
    """Call ``module:function`` with keyword arguments in a fresh process.

    Parameters
    ----------
    function : str
        "module:name" of a function that returns what JSON can hold.
    arguments : dict
        Its keyword arguments, of JSON's types.
    time_limit : float
        Seconds for the function; starting Python is not counted.
    clock : {"wall", "cpu"}
        Which seconds: those of the clock, or those that the process worked, over all its
        threads (Linux; elsewhere the clock's).
    memory_limit : float
        Bytes of resident memory. It is looked at twenty times a second, on Linux.

    Examples
    --------
    >>> isolated("math:comb", {}, time_limit=60, memory_limit=1e10).status
    'failed'
    """
    job = json.dumps({"function": function, "arguments": arguments})
    with tempfile.TemporaryDirectory() as folder:
        begun, answer = Path(folder, "begun"), Path(folder, "answer")
        with Path(folder, "errors").open("w+b") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "cofem.paper.isolated", job, str(begun), str(answer)],
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            try:
                status, peak = _watch(child, begun, time_limit, memory_limit, clock)
            finally:
                if child.poll() is None:
                    child.kill()
                child.wait()
            if status != DONE:
                return Ended(status, peak=peak)
            if child.returncode or not answer.exists():
                errors.seek(0)
                text = errors.read().decode("utf-8", "replace").strip().splitlines()
                return _failure(child.returncode, text[-1] if text else "", peak)
        return Ended(DONE, json.loads(answer.read_text(encoding="utf-8")), peak)


def _failure(code: int, line: str, peak: int) -> Ended:
    # The kernel kills what asks for more than there is; Python raises MemoryError.
    if code == -9 or "MemoryError" in line or "out of memory" in line:
        return Ended(MEMORY, peak=peak, error=line)
    return Ended(FAILED, peak=peak, error=line or f"exit code {code}")


def _watch(
    child: subprocess.Popen[bytes],
    begun: Path,
    time_limit: float,
    memory_limit: float,
    clock: str,
) -> tuple[str, int]:
    """Wait for the child, or for a limit; return the status and the largest memory seen."""
    peak, began = 0, None
    while True:
        try:
            child.wait(timeout=POLL)
            return DONE, peak
        except subprocess.TimeoutExpired:
            pass
        peak = max(peak, peak_memory(child.pid))
        if began is None and begun.exists():
            began = _now(child.pid, clock)
        if peak > memory_limit:
            return MEMORY, peak
        if began is not None and _now(child.pid, clock) - began > time_limit:
            return TIME, peak


def _now(process: int, clock: str) -> float:
    """Return the clock's seconds, or the seconds that a process has worked so far."""
    if clock == "cpu":
        try:
            # The name in brackets may hold spaces; user and system time are fields 14 and 15.
            fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")")[-1]
            user, system = fields.split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            pass
    return time.monotonic()


def peak_memory(process: int | str = "self") -> int:
    """Return the largest resident memory of a process so far in bytes, 0 if nobody counts.

    Linux carries ``ru_maxrss`` over from the process that started this one, so the memory
    map's own mark is read where there is one.

    Examples
    --------
    >>> peak_memory() >= 0
    True
    """
    try:
        for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if process != "self":
        return 0
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _serve(job: str, begun: str, answer: str) -> None:
    asked = json.loads(job)
    module, _, name = asked["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    Path(begun).touch()
    value = function(**asked["arguments"])
    Path(answer + ".part").write_text(json.dumps(value), encoding="utf-8")
    os.replace(answer + ".part", answer)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _serve(*sys.argv[1:])
