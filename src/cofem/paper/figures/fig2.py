"""Figure 2: time and memory against the number of unknowns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata

from cofem import backend
from cofem.paper.claims import Row
from cofem.paper.contestants import AMP, EM, IRLS, OURS, PAPER, SEQUENTIAL, Contestant
from cofem.paper.figures.fig2_claims import check
from cofem.paper.figures.fig2_drawing import draw
from cofem.paper.isolated import DONE, FAILED, MEMORY, TIME, Ended, Worker, isolated
from cofem.paper.report import write_page
from cofem.paper.study import Outcome, Run, open_files
from cofem.paper.trialfile import TrialFile

GIB = float(1 << 30)
ITERATIONS, TARGET = 30, 2.0
QUICK_SECONDS, FULL_SECONDS = 12.0, 1800.0
QUICK_BYTES, FULL_BYTES = 4 * GIB, 24 * GIB

KEY = ("D", "seed", "method", "device", "clock")
COLUMNS = {
    "D": int, "seed": int, "method": str, "device": str, "clock": str, "time_limit": float,
    "memory_limit": float, "status": str, "wall_seconds": float, "cpu_seconds": float,
    "peak_bytes": int, "nrmse": float, "iterations": int, "products": int, "threads": int,
}  # fmt: skip
SKIPPED = "not run"
Line = tuple[str, str, int]  # panel, method and seed: growing sizes of one problem
NOTES = (
    "AMP multiplies through the operator here, two products a step, as all methods do that can. "
    "The paper counts O(DN) for a step, that of a stored matrix; with a transform it is D log D.",
    "AMP's time on the convolution is the time until it noticed that it diverges.",
    "On the convolution N = D and the noise is small: α = 1 gives an NRMSE below 2 % in the first "
    "iteration, before anything is learned, so (f) says little about learning.",
)


@dataclass(frozen=True)
class Panel:
    """One panel: a dictionary, the sizes, the methods, and when they stop."""

    title: str
    dictionary: str
    sparsity: float
    powers: tuple[int, ...]
    quick_powers: tuple[int, ...]
    contestants: tuple[Contestant, ...]
    to_target: bool


EM_BASED = (EM, IRLS, AMP, PAPER, OURS)
AGAINST_SEQ = (SEQUENTIAL, PAPER, OURS)
LOW, HIGH = tuple(range(9, 16)), tuple(range(12, 19))
PANELS = {
    "a": Panel("(a) Gaussian", "gaussian", 0.06, LOW, (9, 11), EM_BASED, False),
    "b": Panel("(b) DCT", "dct", 0.12, LOW, (9, 11, 13, 15), EM_BASED, False),
    "c": Panel("(c) convolution", "convolution", 0.2, LOW, (9, 11, 13, 15), EM_BASED, False),
    "d": Panel("(d) Gaussian", "gaussian", 0.06, HIGH, (10, 11), AGAINST_SEQ, True),
    "e": Panel("(e) DCT", "dct", 0.12, HIGH, (12, 13, 14), AGAINST_SEQ, True),
    "f": Panel("(f) convolution", "convolution", 0.2, HIGH, (12, 13, 14), AGAINST_SEQ, True),
}


def run_figure(run: Run) -> Outcome:
    """Make what is missing, then draw and judge everything."""
    files = open_files(run.out, "fig2", list(PANELS), COLUMNS, KEY)
    limits = {
        "time_limit": run.time_limit or (QUICK_SECONDS if run.quick else FULL_SECONDS),
        "memory_limit": run.memory_limit or (QUICK_BYTES if run.quick else FULL_BYTES),
    }
    trials = run.timed_trials
    # Problem by problem, as in figure 1; the first one finds most of the sizes that are too large.
    lines = [
        (panel, contestant.name, run.seed + trial)
        for trial in range(trials)
        for panel in PANELS
        for contestant in PANELS[panel].contestants
    ]
    total = sum(len(_sizes(PANELS[panel], run.quick)) for panel, _, _ in lines)
    rows: dict[str, list[Row]] = {panel: [] for panel in PANELS}
    with Worker() as worker:
        # The largest resident memory belongs to a process: on a CPU each run has its own. A GPU
        # tells what one run had, so that one process, which starts in seconds, serves all.
        call = isolated if run.device == "cpu" else worker.call
        measure_line = _line_of(run, files, limits, call, total)
        for first in (True, False):
            some = [line for line in lines if (line[-1] == run.seed) == first]
            found = _beside(measure_line, some, _workers(run))
            for (panel, _, _), those in zip(some, found, strict=True):
                rows[panel] += those
    claims = check(rows)
    pictures = draw(rows, PANELS, run.out, run.clock)
    path = write_page(
        run.out / "fig2.md", "Figure 2: time and memory", run,
        _setting(run, trials, limits), pictures, claims, NOTES,
    )  # fmt: skip
    return Outcome(path, tuple(pictures), tuple(claims))


def _workers(run: Run) -> int:
    """Return how many runs go on at once: processor time can be measured side by side."""
    return run.jobs if run.device == "cpu" and run.clock == "cpu" else 1


def _beside(
    function: Callable[[Line], list[Row]], lines: Sequence[Line], workers: int
) -> Iterator[list[Row]]:
    if workers == 1:
        yield from map(function, lines)
        return
    pool = ThreadPoolExecutor(workers)  # threads wait; what is measured has a process of its own
    try:
        yield from pool.map(function, lines)
    finally:
        pool.shutdown(cancel_futures=True)


def _line_of(
    run: Run,
    files: Mapping[str, TrialFile],
    limits: dict[str, float],
    call: Callable[..., Ended],
    total: int,
) -> Callable[[Line], list[Row]]:
    """Return the function that measures one line, which knows what stopped the earlier ones."""
    too_large: dict[tuple[str, str], float] = {}
    done = itertools.count(1)

    def measured(line: Line) -> list[Row]:
        panel, name, seed = line
        common = {"seed": seed, "method": name, "device": run.device, "clock": run.clock}
        end = too_large.get((panel, name), math.inf)
        sizes, found = _sizes(PANELS[panel], run.quick), []
        for row in _one_line(panel, sizes, end, common, limits, files[panel], call):
            found.append({**row, "seconds": row[f"{run.clock}_seconds"]})
            run.report(f"figure 2 ({panel}) {name}", next(done), total)
            if row["status"] in (TIME, MEMORY):
                too_large[panel, name] = min(row["D"], too_large.get((panel, name), math.inf))
        return found

    return measured


def _sizes(panel: Panel, quick: bool) -> list[int]:
    return [2**power for power in (panel.quick_powers if quick else panel.powers)]


def _one_line(
    panel: str,
    sizes: Sequence[int],
    end: float,
    common: Row,
    limits: dict[str, float],
    file: TrialFile,
    call: Callable[..., Ended],
) -> Iterator[Row]:
    """Measure one method at growing sizes, and no further once it was stopped.

    ``end`` is the size at which it was stopped on an earlier problem. Without it nearly all the
    time of a full run would go into reaching the same limits again on every problem.
    """
    stopped = False
    for D in sizes:
        key = {"D": D, **common}
        row = known(file, key, limits)
        if stopped or (row is None and end <= D):
            stopped = True
            yield {**key, **limits, **_nothing(SKIPPED)}
            continue
        if row is None:
            row = {**key, **limits, **measure(panel, key, limits, call)}
            file.append(row)
        stopped = row["status"] != DONE
        yield row


def known(file: TrialFile, key: Row, limits: dict[str, float]) -> Row | None:
    """Return what an earlier run found, if it tells what this one would find.

    A run that ended has its time whatever the limit; one that was stopped says nothing
    about a longer limit.
    """
    earlier = file.select([key])
    ended = [row for row in earlier if row["status"] not in (TIME, MEMORY)]
    stopped = [row for row in earlier if all(row[name] >= limits[name] for name in limits)]
    return next(iter([*ended, *stopped]), None)


def measure(panel: str, key: Row, limits: dict[str, float], call: Callable[..., Ended]) -> Row:
    """Make one trial in another process; memory is limited where it is measured."""
    on_host = key["device"] == "cpu"
    ended = call(
        "cofem.paper.figures.fig2_trial:trial",
        {
            "dictionary": PANELS[panel].dictionary, "sparsity": PANELS[panel].sparsity,
            **{name: key[name] for name in ("D", "seed", "method", "device")},
            "iterations": None if PANELS[panel].to_target else ITERATIONS, "target": TARGET,
            "memory_limit": limits["memory_limit"],
        },
        clock=key["clock"],
        time_limit=limits["time_limit"],
        memory_limit=limits["memory_limit"] if on_host else math.inf,
    )  # fmt: skip
    if ended.status == FAILED:
        raise ValueError(f"{key['method']} at D = {key['D']} failed: {ended.error}")
    if ended.status != DONE:
        return _nothing(ended.status)
    return dict(ended.value)


def _nothing(status: str) -> Row:
    return {
        "status": status, "wall_seconds": math.nan, "cpu_seconds": math.nan, "peak_bytes": 0,
        "nrmse": math.nan, "iterations": 0, "products": 0, "threads": 0,
    }  # fmt: skip


def _clock(run: Run) -> str:
    if run.clock == "wall":
        return "Times are those of the clock: what else runs on the machine slows them down"
    return (
        "Times are seconds that the processors worked, summed over threads: what a busy machine "
        "can still measure"
    )


def _gpu(run: Run) -> list[str]:
    if run.device == "cpu":
        return []
    names = [d.name for d in backend.devices() if d.name.startswith(f"torch, {run.device}")]
    return [f"{'; '.join(names)}, torch {metadata.version('torch')}, double precision"]


def _setting(run: Run, trials: int, limits: dict[str, float]) -> list[str]:
    many = f"{trials} trials" if trials > 1 else "one trial"
    order = f"{_workers(run)} at a time" if _workers(run) > 1 else "one after the other"
    return [
        f"(a)–(c): {ITERATIONS} iterations; (d)–(f): until NRMSE is below {TARGET:g} %, looked at "
        "after every iteration (Seq: a batch of D/32 moves). Gaussian N = D/4, f = 0.06; DCT "
        "N = D/3, f = 0.12; convolution ρ = 0.04, f = 0.2; σ = 0.01 and known",
        f"{many} a point, {order}, in a process of their own on the "
        f"{'CPU' if run.device == 'cpu' else 'GPU'}; drawing the problem, importing and a short "
        "fit to warm up are not counted",
        _clock(run),
        f"A run is stopped after {limits['time_limit']:g} s or at "
        f"{limits['memory_limit'] / GIB:g} GiB; this size and larger ones are then not tried again "
        "with this method, also on the other problems: a cross on the picture",
        "Memory is the largest resident memory of the process above that before the problem "
        "was made (on a GPU: of the device's, what torch had allocated at most); every trial is "
        "in fig2a.csv to fig2f.csv",
        *_gpu(run),
    ]
