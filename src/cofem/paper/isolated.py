"""A function in a process of its own: its peak memory, and limits on its time and memory.

The child is this module run as a script, ``python -m cofem.paper.isolated``, with one job a
line on its standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# How the child ends when there is too little memory: killed by the kernel, or with this exit code,
# which no other program of ours has.
KILLED, OUT_OF_MEMORY = -9, 77
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
    with Worker() as worker:
        return worker.call(
            function, arguments, time_limit=time_limit, memory_limit=memory_limit, clock=clock
        )


class Worker:
    """A process that calls one function after the other, and ends with the first that fails.

    The next call after that starts another process.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._child: subprocess.Popen[bytes] | None = None
        self._calls = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        self._folder.cleanup()

    def call(
        self, function: str, arguments: dict[str, Any], *, time_limit: float,
        memory_limit: float, clock: str = "wall",
    ) -> Ended:  # fmt: skip
        """Call ``module:function``, as :func:`isolated` does, in the process that is there."""
        self._calls += 1
        begun, answer = (Path(self._folder.name, f"{n}{self._calls}") for n in ("begun", "answer"))
        job = {"function": function, "arguments": arguments, "begun": str(begun),
               "answer": str(answer)}  # fmt: skip
        child = self._running()
        try:
            assert child.stdin is not None
            child.stdin.write(json.dumps(job).encode() + b"\n")
            child.stdin.flush()
            status, peak = _watch(child, begun, answer, time_limit, memory_limit, clock)
            if status != DONE:
                return Ended(status, peak=peak)
            if answer.exists():
                return Ended(DONE, json.loads(answer.read_text(encoding="utf-8")), peak)
            text = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return _failure(child.returncode, text[-1] if text else "", peak)
        finally:
            if not answer.exists():
                self._stop()

    @property
    def _errors(self) -> Path:
        return Path(self._folder.name, "errors")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            with self._errors.open("wb") as errors:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "cofem.paper.isolated"],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                )  # fmt: skip
        return self._child

    def _stop(self) -> None:
        if self._child is None:
            return
        assert self._child.stdin is not None
        self._child.kill()
        self._child.wait()
        self._child.stdin.close()
        self._child = None


def _failure(code: int, line: str, peak: int) -> Ended:
    if code in (KILLED, OUT_OF_MEMORY):
        return Ended(MEMORY, peak=peak, error=line)
    return Ended(FAILED, peak=peak, error=line or f"exit code {code}")


def _watch(
    child: subprocess.Popen[bytes],
    begun: Path,
    answer: Path,
    time_limit: float,
    memory_limit: float,
    clock: str,
) -> tuple[str, int]:
    """Wait for an answer or the end, or a limit; return the status and the largest memory."""
    peak, began = 0, None
    while True:
        try:
            child.wait(timeout=POLL)
            return DONE, peak
        except subprocess.TimeoutExpired:
            pass
        if answer.exists():
            return DONE, peak
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
    """Return the largest resident memory of a process so far in bytes; 0 if it is not known.

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


def _serve(asked: dict[str, Any]) -> None:
    module, _, name = asked["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    Path(asked["begun"]).touch()
    try:
        value = function(**asked["arguments"])
    except Exception as error:
        # torch's error for a full GPU is not a MemoryError; it is known by its name alone.
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if not kinds & {"MemoryError", "OutOfMemoryError"}:
            raise
        traceback.print_exc()
        sys.exit(OUT_OF_MEMORY)
    answer = asked["answer"]
    Path(answer + ".part").write_text(json.dumps(value), encoding="utf-8")
    os.replace(answer + ".part", answer)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        _serve(json.loads(line))
