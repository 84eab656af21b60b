"""What ``cofem paper all`` with 25 trials costs, from the seconds in benchmarks/results/paper.

    python benchmarks/paper_cost.py [--trials 25] [--limit 1800]

Figure 1: the mean seconds of every point and method, times the trials. Figure 2: sizes that
were not reached under that run's limit are extrapolated with the growth between the last two sizes,
to the limit asked for, where a method stops; that limit is reached once, not on every problem.
Figure 3 keeps no seconds.
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


def sizes(limit: float) -> tuple[float, float, float]:
    """Return seconds of figure 2: a trial's, measured and extrapolated, and those spent once."""
    measured = missing = once = 0.0
    for letter, panel in PANELS.items():
        found = rows(f"fig2{letter}")
        for contestant in panel.contestants:
            times = defaultdict(list)
            for row in found:
                if row["method"] == contestant.name and row["status"] == "done":
                    times[int(row["D"])].append(float(row["wall_seconds"]))
            done = {size: sum(those) / len(those) for size, those in times.items()}
            measured += sum(done.values())
            last = [done[size] for size in sorted(done)][-2:]
            growth = last[1] / last[0] if len(last) == 2 else STEEPEST
            # A size that did not end took at least the limit of that run.
            seconds = last[-1] if last else float(found[0]["time_limit"])
            for power in panel.powers:
                if 1 << power in done:
                    continue
                seconds *= growth
                if seconds > limit:
                    once += limit
                    break
                missing += seconds
    return measured, missing, once


def main() -> None:
    """Print the hours."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--limit", type=float, default=FULL_SECONDS)
    asked = parser.parse_args()
    spent, full = accuracy(asked.trials)
    measured, missing, once = sizes(asked.limit)
    hours = ((measured + missing) * asked.trials + once) / 3600
    print(f"figure 1: {full / 3600:.2f} hours for {asked.trials} trials, {spent / 3600:.2f} done")
    print(
        f"figure 2: {hours:.1f} hours for {asked.trials} trials and a limit of {asked.limit:g} s: "
        f"{measured:.0f} s a trial measured, {missing / 3600:.1f} h a trial extrapolated, "
        f"{once / 3600:.1f} h once where methods run into the limit"
    )


if __name__ == "__main__":
    main()
