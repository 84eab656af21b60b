"""Kills inside writes and full disks: what is left, and what the next run makes of it.

    python benchmarks/faults.py [--kills 200] [--full 40] [--only fit]

Lines of jobs that are not run again stay. Writes benchmarks/results/faults.md.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import faults_commands as commands
import faults_jobs as jobs
import faults_kill as kill
from common import written_by_hand

RESULT = Path(__file__).parent / "results" / "faults.md"


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether two answers are equal bit for bit."""
    return found.keys() == expected.keys() and all(
        np.array_equal(found[name], expected[name], equal_nan=True) for name in expected
    )


class Tally:
    """What came out of one kind of fault for one job."""

    def __init__(self) -> None:
        self.tries = self.hit = self.lost = self.unreadable = self.other = self.dumb = 0
        self.left = 0
        self.said: set[str] = set()
        self.broken: list[str] = []


def try_job(job: jobs.Job, tries: int, full: bool, folder: Path, seed: int = 0) -> Tally:
    """Interrupt a job at random moments, look at what is left, and run it again."""
    tally, rng = Tally(), np.random.default_rng(seed)
    reference = folder / "reference"
    reference.mkdir()
    quiet = kill.run(functools.partial(job.work, reference))
    assert quiet.code == 0, quiet.error
    expected = job.answer(reference)
    for number in range(tries):
        place = folder / f"{number}"
        place.mkdir()
        at = int(rng.integers(1, quiet.moments + 1))
        before = kill.run(functools.partial(job.work, place), at, full)
        tally.tries += 1
        tally.hit += before.code != 0
        if full and before.code not in (0, kill.KILLED):
            tally.said.add(before.error.strip().replace(str(place), "…")[:160])
            tally.dumb += "No space left" not in before.error
        judge(job, place, expected, tally, at, before.units, quiet.units)
        shutil.rmtree(place)
    return tally


def judge(
    job: jobs.Job, place: Path, expected: dict[str, Any], tally: Tally, at: int, units: int,
    total: int,
) -> None:  # fmt: skip
    """Count what is lost, unreadable or different after a fault.

    Of ``units`` that were finished before the fault all but the last few must be there, and the
    next run must not do again what is there: of ``total`` it does the rest.
    """
    try:
        committed = job.kept(place)
    except Exception as error:
        tally.unreadable += 1
        tally.broken.append(f"moment {at}: unreadable: {type(error).__name__}: {error}")
        committed = 0
    delivered = job.delivered(place)
    tally.left += sum(1 for _ in place.rglob("*.tmp"))
    again = kill.run(functools.partial(job.work, place))
    if again.code != 0:
        tally.other += 1
        tally.broken.append(f"moment {at}: the next run fails: {again.error.strip()[-300:]}")
        return
    try:
        if not same(job.answer(place), expected):
            raise ValueError("another answer")
    except Exception as error:
        tally.other += 1
        tally.broken.append(f"moment {at}: {type(error).__name__}: {error}")
    repeated = 0 if delivered else max(0, committed + again.units - total)
    if committed < units - job.late or repeated:
        tally.lost += 1
        tally.broken.append(
            f"moment {at}: of {total} units {units} were done, {committed} kept, "
            f"{again.units} done again"
        )


def main() -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=40)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["COFEM_NUM_THREADS"] = "1"
    lines, broken, said = earlier(), [], []
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch)
        makers: dict[str, Callable[[], jobs.Job]] = {
            "fit": jobs.Fit, "folder": lambda: jobs.Many("many"),
            "paper": commands.Paper, "calcium": lambda: commands.Calcium(sources),
            "mri": lambda: commands.Mri(sources), "zarr": lambda: jobs.Many("many.zarr"),
        }  # fmt: skip
        for short, make in makers.items():
            if options.only and short not in options.only.split(","):
                continue
            job = make()
            warm = sources / f"warm-{short}"
            warm.mkdir()
            job.work(warm)  # imports and compiles, so that a fork costs milliseconds
            for full, tries in ((False, options.kills), (True, options.full)):
                folder = sources / f"{short}-{full}"
                folder.mkdir()
                tally = try_job(job, tries, full, folder)
                shutil.rmtree(folder)
                fault = "disk full" if full else "killed"
                begun = f"| `{job.name}` | {fault} |"
                lines = [line for line in lines if not line.startswith(begun)]
                lines.append(
                    f"| `{job.name}` | {fault} | {tally.tries} | {tally.hit} | {tally.lost} | "
                    f"{tally.unreadable} | {tally.other} | {tally.left} | "
                    f"{tally.dumb if full else '–'} |"
                )
                print(lines[-1], flush=True)
                broken += [f"- `{job.name}`, {fault}: {text}" for text in tally.broken[:3]]
                said += [f"- `{job.name}`: {text}" for text in sorted(tally.said)[:3]]
                write(lines, broken, said, options)


def earlier() -> list[str]:
    """Return the lines of the table that is there; those of jobs that run again are replaced."""
    text = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
    return [line for line in text.splitlines() if line.startswith("| `")]


def write(lines: list[str], broken: list[str], said: list[str], options: Any) -> None:
    """Write what is there so far."""
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    RESULT.write_text(
        "\n".join(
            [
                "# Faults inside writes", "",
                f"`python benchmarks/faults.py --kills {options.kills} --full {options.full}`, "
                f"{when}, Python {platform.python_version()}, NumPy {np.__version__}.", "",
                "A moment is a call of write, fsync, replace, rename, unlink, truncate, or an "
                "assignment to or a flush of a mapped array. *Killed*: half of the bytes of that "
                "call are written and the process gets SIGKILL. *Disk full*: that call raises "
                "ENOSPC. The moment is drawn uniformly from those of an undisturbed run. Then what "
                "is left is read, the same work is done again and compared with the undisturbed "
                "answer, bit for bit.", "",
                "| work | fault | tries | hit | committed and lost | unreadable | next run fails "
                "or differs | temporary files left | error does not say it |",
                "|---|---|---|---|---|---|---|---|---|", *lines, "",
                *(["## What broke", "", *broken, ""] if broken else []),
                *(["## What a full disk said", "", *said, ""] if said else []),
            ]
        )
        + written_by_hand(RESULT),
        encoding="utf-8",
    )  # fmt: skip


if __name__ == "__main__":
    main()
