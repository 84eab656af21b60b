"""Figure 4: spikes from calcium traces, against spikes that an electrode recorded."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cofem.calcium.contest import CONTESTANTS, above_baseline, has_oasis
from cofem.calcium.recordings import Recording, load_recordings
from cofem.calcium.scoring import binned_correlation
from cofem.files import atomic_write
from cofem.paper.claims import Claim

WIDTHS = (10, 20, 30, 40, 50, 60)
QUICK_RECORDINGS = 3
# With fewer pairs a standard error is too uncertain to be shown.
ENOUGH_RECORDINGS = 8
OURS, PAPER, EXACT, FOOPSI, AR1, AR2, THRESHOLD = CONTESTANTS
STYLES = {
    OURS: ("#D55E00", "o", "-"),
    PAPER: ("#0072B2", "s", "-"),
    EXACT: ("#56B4E9", "x", "--"),
    FOOPSI: ("#000000", "v", ":"),
    AR1: ("#009E73", "^", "-."),
    AR2: ("#CC79A7", "D", "-."),
    THRESHOLD: ("#999999", "+", ":"),
}
# Seconds of a trace that panel (a) shows, and of how many recordings.
SHOWN_SECONDS, SHOWN_TRACES = 40.0, 2

Scores = dict[tuple[str, str], list[float]]


def run(data: Any, out: Any, quick: bool = False) -> list[Claim]:
    """Compute, draw and judge figure 4; an interrupted run goes on from its CSV.

    Parameters
    ----------
    data : path
        The folder with the recordings (.npz), or one with a subfolder calcium/.
    out : path
        The folder for calcium.csv, calcium.png and calcium.md.
    quick : bool
        Only the first three recordings.

    Returns
    -------
    list of Claim
        What the paper says, and whether it held.
    """
    recordings = load_recordings(data)
    if quick:
        recordings = recordings[:QUICK_RECORDINGS]
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = [name for name in CONTESTANTS if has_oasis() or not name.startswith("OASIS")]
    scores = _scores(out / "calcium.csv", recordings, names)
    means = {name: np.mean([scores[r.name, name] for r in recordings], axis=0) for name in names}
    claims = judge(means, scores, [r.name for r in recordings])
    draw(out / "calcium.png", recordings, means)
    write_page(out / "calcium.md", recordings, means, claims, quick)
    return claims


def _scores(path: Path, recordings: Sequence[Recording], names: Sequence[str]) -> Scores:
    """Return the correlations, of the CSV and of what had to be computed."""
    scores = _read(path)
    for recording in recordings:
        for name in names:
            if (recording.name, name) in scores:
                continue
            estimate = CONTESTANTS[name](recording.dff, recording.framerate)
            scores[recording.name, name] = [
                binned_correlation(estimate, recording.spikes, width) for width in WIDTHS
            ]
            _write(path, scores)
    return scores


def _read(path: Path) -> Scores:
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {
        (row["recording"], row["method"]): [float(row[f"b={width}"]) for width in WIDTHS]
        for row in rows
    }


def _write(path: Path, scores: Scores) -> None:
    with atomic_write(path, "w") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["recording", "method", *(f"b={width}" for width in WIDTHS)])
        for (recording, method), values in scores.items():
            writer.writerow([recording, method, *values])


def judge(
    means: Mapping[str, np.ndarray], scores: Scores, recordings: Sequence[str]
) -> list[Claim]:
    """Hold the statements of the paper, and ours, against the correlations."""
    lead = means[PAPER] - means[FOOPSI]
    gap = float(np.max(np.abs(means[PAPER] - means[EXACT])))
    claims = [
        Claim(
            "SBL by CoFEM is above fast-oopsi at every bin width", bool(np.all(lead > 0)),
            f"by {_listed(lead)}",
        ),
        Claim(
            "its lead over fast-oopsi grows with the bin width (from the narrowest to the widest)",
            bool(lead[-1] > lead[0]),
            f"from {lead[0]:.3f} to {lead[-1]:.3f}",
        ),
        Claim(
            "CoFEM and the exact E-step agree within 0.005 at every bin width", gap <= 0.005,
            f"largest difference of the means {gap:.4f}",
        ),
    ]  # fmt: skip
    if AR2 in means:
        growing = means[PAPER] - means[AR1]
        claims.append(
            Claim(
                "the lead of the paper's setting over OASIS AR(1) grows with the bin width "
                "(from the narrowest to the widest)",
                bool(growing[-1] > growing[0]),
                f"it is {_listed(growing)}",
            )
        )
        enough = len(recordings) >= ENOUGH_RECORDINGS
        for rival in (AR2, THRESHOLD):
            pairs = np.array([scores[r, OURS] for r in recordings]) - [
                scores[r, rival] for r in recordings
            ]
            error = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.nan
            claims.append(
                Claim(
                    f"our default is above {rival} at every bin width, paired over recordings "
                    "(mean difference above twice its standard error)",
                    bool(np.all(pairs.mean(axis=0) > 2 * error)) if enough else None,
                    f"by {_listed(pairs.mean(axis=0))}, standard errors "
                    f"{_listed(np.broadcast_to(error, len(WIDTHS)))}",
                )
            )
    return claims


def _listed(values: Any) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def draw(path: Path, recordings: Sequence[Recording], means: Mapping[str, np.ndarray]) -> None:
    """Draw (a) traces with inferred and true spikes, (b) correlation against bin width."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = halves
    axes = left.subplots(SHOWN_TRACES, 1, squeeze=False)[:, 0]
    for ax, recording in zip(axes, recordings, strict=False):
        _draw_trace(ax, recording)
    axes[0].set_title("(a) inferred and true spikes", fontsize=10)
    axes[-1].set_xlabel("seconds")
    ax = right.subplots()
    for name, values in means.items():
        color, marker, line = STYLES[name]
        ax.plot(WIDTHS, values, color=color, marker=marker, linestyle=line, label=name, ms=5)
    ax.set_title("(b) mean correlation with true spikes", fontsize=10)
    ax.set_xlabel("bin width (frames)")
    ax.grid(alpha=0.3, linewidth=0.6)
    ax.legend(fontsize=7, loc="lower right")
    with atomic_write(path) as stream:
        figure.savefig(stream, format="png", dpi=150)


def _draw_trace(ax: Any, recording: Recording) -> None:
    n = min(int(SHOWN_SECONDS * recording.framerate), len(recording.dff))
    counts = np.convolve(recording.spikes, np.ones(n), mode="valid")
    start = int(np.argmax(counts))
    t = np.arange(start, start + n) / recording.framerate
    y, _ = above_baseline(recording.dff, recording.framerate)
    ax.plot(t, y[start : start + n], color="#999999", linewidth=0.7)
    top = float(np.max(y[start : start + n]))
    ticks = {0.0: "0", top: f"{top:.1f}"}
    for row, name in enumerate((OURS, EXACT)):
        estimate = CONTESTANTS[name](recording.dff, recording.framerate)[start : start + n]
        scaled = 0.3 * top * estimate / max(float(np.max(estimate)), 1e-12)
        level = -0.4 * top * (row + 1)
        ax.vlines(t, level, level + scaled, color=STYLES[name][0], linewidth=1.0)
        ticks[level] = name.split(",")[0]
    times = recording.spike_times[
        (recording.spike_times >= t[0]) & (recording.spike_times <= t[-1])
    ]
    ax.plot(times, np.full(len(times), -1.0 * top), "|", color="#000000", markersize=6)
    ticks[-1.0 * top] = "true spikes"
    ax.text(t[-1], top, f"{recording.name}, dF/F ", ha="right", va="top", fontsize=8)
    ax.set_xlim(t[0], t[-1])
    ax.set_yticks(list(ticks), list(ticks.values()), fontsize=8)


def write_page(
    path: Path,
    recordings: Sequence[Recording],
    means: Mapping[str, np.ndarray],
    claims: Sequence[Claim],
    quick: bool,
) -> None:
    """Write the table and the verdicts."""
    indicators = ", ".join(sorted({r.indicator for r in recordings if r.indicator}))
    lines = ["# Figure 4: calcium deconvolution", ""]
    if quick:
        lines += [f"Quick run: {QUICK_RECORDINGS} recordings.", ""]
    lines += [
        f"{len(recordings)} recordings ({indicators}); correlation of sums over b frames with "
        "0/1 true spikes, mean over recordings.",
        "",
        f"| method | {' | '.join(f'b = {width}' for width in WIDTHS)} |",
        f"|---|{'---|' * len(WIDTHS)}",
    ]
    for name, values in means.items():
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")
    lines += ["", f"![Figure 4]({path.with_suffix('.png').name})", "", "## Statements", ""]
    lines += [f"- {claim}" for claim in claims]
    if not has_oasis():
        lines += ["", "OASIS is not installed (`pip install oasis-deconv`): left out."]
    with atomic_write(path, "w") as stream:
        stream.write("\n".join(lines) + "\n")
