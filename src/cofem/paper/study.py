"""A figure as a list of trials, run one after the other or beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofem.paper.claims import Claim
from cofem.paper.trialfile import Row, TrialFile

Reporter = Callable[[str, int, int], None]
"""Called with what is running, the trials done and the trials in all."""

FULL_TRIALS, QUICK_TRIALS = 25, 3
FULL_TIMED, QUICK_TIMED = 3, 1  # figure 2: the spread of a time is small beside its growth


def silent(label: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Run:
    """What the user asked for.

    Attributes
    ----------
    out : Path
        The folder for CSVs, pictures and pages.
    quick : bool
        Three trials and fewer points instead of the paper's.
    draws : int or None
        Problems at each point; None: the paper's 25, quick 3 (figure 2: 3, quick 1).
    seed : int
        The first trial's; the others follow it.
    jobs : int
        Trials that run beside each other. Figure 2 runs one, unless it counts processor time.
    device : str
        "cpu" or "cuda"; figure 2 alone knows the second.
    clock : str
        "wall" or "cpu": which seconds figure 2 shows and limits.
    time_limit, memory_limit : float or None
        Seconds and bytes for a run of figure 2; None: the figure's own.
    report : Reporter
        Where progress goes.
    """

    out: Path
    quick: bool = False
    draws: int | None = None
    seed: int = 0
    jobs: int = 1
    device: str = "cpu"
    clock: str = "wall"
    time_limit: float | None = None
    memory_limit: float | None = None
    report: Reporter = silent

    @property
    def trials(self) -> int:
        """How many problems are drawn at each point of figures 1 and 3."""
        return self.draws or (QUICK_TRIALS if self.quick else FULL_TRIALS)

    @property
    def timed_trials(self) -> int:
        """How many are timed at each point of figure 2."""
        return self.draws or (QUICK_TIMED if self.quick else FULL_TIMED)


@dataclass(frozen=True)
class Outcome:
    """What a figure leaves behind.

    Attributes
    ----------
    page : Path
        The Markdown page.
    pictures : tuple of Path
        The PNGs.
    claims : tuple of Claim
        What was checked.
    """

    page: Path
    pictures: tuple[Path, ...]
    claims: tuple[Claim, ...] = field(default=())


@dataclass(frozen=True)
class Job:
    """One trial that is to be made: its panel, and the columns that name it."""

    panel: str
    key: Mapping[str, Any]


def run_jobs(
    label: str,
    jobs: Sequence[Job],
    files: Mapping[str, TrialFile],
    measure: Callable[..., Row],
    *,
    workers: int = 1,
    report: Reporter = silent,
) -> None:
    """Make the trials that are not in their files yet.

    ``measure(panel=…, **key)`` is a function of a module, so that another process can
    find it; it returns the columns that the key does not hold.
    """
    todo = [job for job in jobs if not files[job.panel].has(dict(job.key))]
    done, total = len(jobs) - len(todo), len(jobs)
    report(label, done, total)
    for job, found in _results(todo, measure, workers):
        files[job.panel].append({**job.key, **found})
        done += 1
        report(label, done, total)


def _results(
    jobs: Sequence[Job], measure: Callable[..., Row], workers: int
) -> Iterator[tuple[Job, Row]]:
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, measure(panel=job.panel, **job.key)
        return
    from joblib import Parallel, delayed

    # One trial per batch, so that every finished trial is written at once.
    parallel = Parallel(
        n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
    )
    yield from parallel(delayed(_one)(measure, job) for job in jobs)


def _one(measure: Callable[..., Row], job: Job) -> tuple[Job, Row]:
    # The trials already use all cores; threads inside a trial would only compete.
    os.environ["COFEM_NUM_THREADS"] = "1"
    return job, measure(panel=job.panel, **job.key)


def open_files(
    out: Path, figure: str, panels: Sequence[str], columns: Mapping[str, type], key: Sequence[str]
) -> dict[str, TrialFile]:
    """Open ``fig1a.csv`` and so on, one for each panel; the folder is made."""
    out.mkdir(parents=True, exist_ok=True)
    return {p: TrialFile(out / f"{figure}{p}.csv", columns, key) for p in panels}


def selected(files: Mapping[str, TrialFile], jobs: Sequence[Job]) -> dict[str, list[Row]]:
    """Return the trials of this run, by panel."""
    return {
        panel: file.select([dict(job.key) for job in jobs if job.panel == panel])
        for panel, file in files.items()
    }
