"""Events beside true spikes, and whether their probabilities are what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calcium_scores import OURS
from cofem.calcium import deconvolve, detection
from cofem.calcium.recordings import Recording
from cofem.calcium.scoring import real_events
from common import Table


def event_table(
    recordings: Sequence[Recording], estimates: dict[str, list[np.ndarray]]
) -> tuple[Table, float]:
    rows = []
    for name, made in estimates.items():
        if name == OURS:
            continue
        found = [
            detection(r.spike_times, np.flatnonzero(x > 0) / r.framerate)
            for r, x in zip(recordings, made, strict=True)
        ]
        rows.append([f"{name}, frames above 0", *_mean_of(found)])
    best = 0.0
    for threshold in (0.3, 0.5, 0.7, 0.9):
        found = [
            detection(
                r.spike_times,
                deconvolve(r.dff, r.framerate, n_jobs=1).events(threshold)["time"],
            )
            for r in recordings
        ]
        rows.append([f"{OURS}, events({threshold})", *_mean_of(found)])
        if threshold == 0.5:
            best = _mean_of(found)[0]
    title = "Events matched to spikes one to one within 0.1 s"
    return Table(title, ["method", "F1", "precision", "recall"], rows), best


def _mean_of(found: Sequence[Any]) -> list[float]:
    return [round(float(x), 3) for x in np.mean(found, axis=0)]


def reliability(recordings: Sequence[Recording]) -> np.ndarray:
    """Return for every event above 0.05: probability, is a spike near, has it its own."""
    rows = []
    for r in recordings:
        table = deconvolve(r.dff, r.framerate, n_jobs=1).events(0.05)
        near, own = real_events(table["time"], table["probability"], r.spike_times)
        rows.append(np.stack([table["probability"], near, own], axis=1))
    return np.concatenate(rows)


def reliability_table(recordings: Sequence[Recording]) -> tuple[Table, float]:
    chance, near, own = reliability(recordings).T
    rows, off = [], 0.0
    for low in np.arange(0.0, 1.0, 0.1):
        chosen = (chance >= low) & (chance < low + 0.1 + (low > 0.85))
        if not chosen.any():
            continue
        said, most, least = (float(x[chosen].mean()) for x in (chance, near, own))
        rows.append(
            [f"{low:.1f}–{low + 0.1:.1f}", int(chosen.sum())]
            + [round(x, 3) for x in (said, least, most)]
        )
        off = max(off, least - said, said - most)
    title = "Probability of events (above 0.05), and the share that is real by two counts"
    columns = ["class", "events", "said", "spike of its own", "spike within 0.1 s"]
    return Table(title, columns, rows), float(off)
