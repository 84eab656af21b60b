"""Correlations with true spikes, as the tables of the calcium benchmark show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cofem.calcium import binned_correlation
from cofem.calcium.contest import CONTESTANTS
from cofem.calcium.recordings import Recording
from common import Table

WIDTHS = (10, 20, 30, 40, 50, 60)
COLUMNS = [f"b = {width}" for width in WIDTHS]
OURS, PAPER, EXACT, FOOPSI, AR1, AR2, THRESHOLD = CONTESTANTS


def correlations(recordings: Sequence[Recording], estimates: Sequence[np.ndarray]) -> np.ndarray:
    return np.array(
        [
            [binned_correlation(x, r.spikes, b) for b in WIDTHS]
            for r, x in zip(recordings, estimates, strict=True)
        ]
    )


def mean_table(title: str, scores: dict[str, np.ndarray], n: int) -> Table:
    rows = [[name, *(float(x) for x in s.mean(axis=0).round(3))] for name, s in scores.items()]
    return Table(f"{title}, {n} recordings", ["method", *COLUMNS], rows)


def paired_table(scores: dict[str, np.ndarray]) -> Table:
    rows = []
    for name, theirs in scores.items():
        if name == OURS:
            continue
        pairs = scores[OURS] - theirs
        error = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
        cells = [
            f"{m:+.3f} ± {e:.3f}, {np.count_nonzero(p > 0)} of {len(pairs)}"
            for m, e, p in zip(pairs.mean(axis=0), error, pairs.T, strict=True)
        ]
        rows.append([name, *cells])
    title = "Our default above …: mean difference ± its standard error, recordings won"
    return Table(title, ["method", *COLUMNS], rows)
