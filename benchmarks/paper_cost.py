"""What ``cofem paper all`` with 25 trials costs, from the seconds in benchmarks/results/paper.

    python benchmarks/paper_cost.py [--trials 25]

Figure 1: the mean seconds of every point and method, times the trials. Figure 2: sizes that
were not reached under that run's limit are extrapolated with the growth between the last two sizes,
to its own limit of 1,800 s, where a method stops. Figure 3 keeps no seconds.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from pathlib import Path

from cofem.paper.figures.fig2 import FULL_SECONDS, PANELS

FOLDER = Path(__file__).parent / "results" / "paper"
# Where fewer than two sizes were finished: D³ on a matrix, the steepest there is.
STEEPEST = 8.0


def rows(name: str) -> list[dict[str, str]]:
    """Return the trials of a panel."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def accuracy(trials: int) -> tuple[float, float]:
    """Return the seconds of figure 1 so far, and of all its trials."""
    spent = full = 0.0
    for panel in "abcdef":
        seconds = defaultdict(list)
        for row in rows(f"fig1{panel}"):
            seconds[row["x"], row["method"]].append(float(row["seconds"]))
        for (_, method), those in seconds.items():
            once = "check" in method  # made for the first problem alone
            full += sum(those) / len(those) * (1 if once else trials)
            spent += sum(those)
    return spent, full


def sizes() -> tuple[float, float]:
    """Return the seconds of a trial of figure 2: of the sizes that ended, and of the others."""
    measured = missing = 0.0
    for letter, panel in PANELS.items():
        found = rows(f"fig2{letter}")
        for contestant in panel.contestants:
            done = {
                int(row["D"]): float(row["wall_seconds"])
                for row in found
                if row["method"] == contestant.name and row["status"] == "done"
            }
            measured += sum(done.values())
            last = [done[size] for size in sorted(done)][-2:]
            growth = last[1] / last[0] if len(last) == 2 else STEEPEST
            # A size that did not end took at least the limit of that run.
            seconds = last[-1] if last else float(found[0]["time_limit"])
            for power in panel.powers:
                if 1 << power not in done and seconds < FULL_SECONDS:
                    seconds = min(FULL_SECONDS, seconds * growth)
                    missing += seconds
    return measured, missing


def main() -> None:
    """Print the hours."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=25)
    trials = parser.parse_args().trials
    spent, full = accuracy(trials)
    measured, missing = sizes()
    print(f"figure 1: {full / 3600:.2f} hours for {trials} trials, of them {spent / 3600:.2f} done")
    print(
        f"figure 2: {(measured + missing) * trials / 3600:.0f} hours for {trials} trials: "
        f"{measured:.0f} s a trial measured, {missing / 3600:.1f} h extrapolated"
    )


if __name__ == "__main__":
    main()
