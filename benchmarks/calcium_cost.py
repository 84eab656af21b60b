"""Time of one calcium trace beside OASIS, and memory of many."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calcium_scores import EXACT
from cofem.calcium import deconvolve, simulate
from cofem.calcium.contest import CONTESTANTS, above_baseline, has_oasis, paper_setting
from cofem.calcium.recordings import Recording
from cofem.calcium.result import OVER_FRAMES
from common import Table, median, note


def speed(recordings: Sequence[Recording], quick: bool) -> tuple[Table, dict[str, float]]:
    """CPU seconds of one trace, alternating, so that what else runs disturbs all alike."""
    ways = _ways()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(2 if quick else 4):
        for r in recordings:
            for name, way in ways.items():
                seconds = way(r)
                if i > 0:  # the first round compiles
                    taken[name].append(seconds)
    first = median(next(iter(taken.values())))
    rows = [[n, 1000 * median(v), median(v) / first] for n, v in taken.items()]
    ratios = {name: row[2] for name, row in zip(taken, rows, strict=True)}
    if not quick:
        slow, exact = _paper_seconds(recordings[0])
        rows.append(["CoFEM by FFT, the paper's setting", 1000 * slow, slow / first])
        rows.append(["the same, exact E-step", 1000 * exact, exact / first])
        ratios["fft"] = slow / exact
    title = f"CPU time of one trace of {len(recordings[0].dff)} frames, median, ms"
    return Table(title, ["way", "ms", "ratio to the first"], rows), ratios


def _ways() -> dict[str, Callable[[Recording], float]]:
    """Return what is timed: each way takes a recording and returns its CPU seconds."""
    ways: dict[str, Callable[[Recording], float]] = {}
    if has_oasis():
        from oasis.functions import deconvolve as oasis

        def rival(r: Recording) -> float:
            y, noise = above_baseline(r.dff, r.framerate)
            began = time.process_time()
            oasis(y, tau_d=0.7, tau_r=0.05, framerate=r.framerate, sn=noise, penalty=1,
                  b_nonneg=False)  # fmt: skip
            return time.process_time() - began

        ways["OASIS AR(2), penalty 1, baseline removed"] = rival
    options: dict[str, dict[str, Any]] = {
        "ours, order 2, time constants given": {"tau_d": 0.7, "tau_r": 0.05, "method": "banded"},
        "ours, order 1, decay time searched": {"method": "banded"},
        "ours, jumps, time constants and response given": {
            "tau_d": 0.7,
            "tau_r": 0.05,
            "response": "linear",
        },
        "ours, default (everything chosen per cell)": {},
    }
    for name, given in options.items():

        def mine(r: Recording, given: dict[str, Any] = given) -> float:
            began = time.process_time()
            deconvolve(r.dff, r.framerate, n_jobs=1, **given)
            return time.process_time() - began

        ways[name] = mine
    return ways


def _paper_seconds(r: Recording) -> tuple[float, float]:
    """Return the CPU seconds of the paper's setting: by FFT, and with the exact E-step."""
    note("calcium: CoFEM by FFT on one trace")
    began = time.process_time()
    paper_setting(r.dff, r.framerate)
    slow = time.process_time() - began
    CONTESTANTS[EXACT](r.dff, r.framerate)  # the first run compiles
    began = time.process_time()
    CONTESTANTS[EXACT](r.dff, r.framerate)
    return slow, time.process_time() - began


def many_cells(quick: bool) -> tuple[Table, float]:
    """Memory beyond input and outputs, for few cells and for many."""
    rows, extra = [], []
    for n_cells in (10, 100) if quick else (10, 1000):
        note(f"calcium: {n_cells} cells")
        base, _ = simulate(n_cells=min(n_cells, 50), n_frames=3000, framerate=30.0, seed=0)
        dff = np.tile(base, (n_cells // len(base), 1)).astype(np.float32)
        tracemalloc.start()
        began = time.process_time()
        found = deconvolve(dff, 30.0, n_jobs=1)
        seconds = time.process_time() - began
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        outputs = sum(getattr(found, name).nbytes for name in OVER_FRAMES)
        extra.append((peak - outputs) / 2**20)
        rows.append([n_cells, seconds, outputs / 2**20, extra[-1]])
    columns = ["cells", "CPU s", "outputs, MiB", "most beyond the outputs, MiB"]
    return Table("Many cells in one call (3,000 frames)", columns, rows), extra[1] - extra[0]
