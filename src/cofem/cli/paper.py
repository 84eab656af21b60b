"""``cofem paper``: the figures of the paper, made again."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofem.cli.errors import warnings_as_lines
from cofem.files import check_writable, only_writer
from cofem.progress import ProgressBar

if TYPE_CHECKING:
    from cofem.paper.claims import Claim


class Target(enum.StrEnum):
    """What can be made."""

    FIG1 = "fig1"
    FIG2 = "fig2"
    FIG3 = "fig3"
    ALL = "all"
    CALCIUM = "calcium"
    MRI = "mri"


class Device(enum.StrEnum):
    """Where figure 2 is measured and images are reconstructed."""

    CPU = "cpu"
    CUDA = "cuda"


class Clock(enum.StrEnum):
    """Which seconds figure 2 counts."""

    WALL = "wall"
    CPU = "cpu"


def paper(
    target: Annotated[
        Target,
        typer.Argument(
            help="fig1: accuracy; fig2: time and memory; fig3: probes and steps; all: these "
            "three. calcium and mri are the paper's applications and need --data."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Three trials and fewer points: minutes, not hours.")
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder for CSVs, pictures and pages."
        ),
    ] = Path("cofem-paper"),
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="T",
            help="Problems at each point; default 25, with --quick 3 (fig2: 3 and 1). A later run "
            "with more adds only those that are missing.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the first trial.")] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Trials at the same time; fig2 runs one, unless it counts processor time.",
        ),
    ] = 1,
    device: Annotated[
        Device, typer.Option(help="Where fig2 is measured and mri computed.")
    ] = Device.CPU,
    clock: Annotated[
        Clock,
        typer.Option(help="How fig2 measures time: wall clock, or processor time."),
    ] = Clock.WALL,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=1, metavar="S", help="Time limit of a run of fig2: 1800, with --quick 12."
        ),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            min=0.5, metavar="GIB", help="Memory limit of a run of fig2: 24, with --quick 4."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="COFEM_DATA",
            help="The folder with the recordings, for calcium and mri.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments on this machine and say what held.

    For every figure there is a CSV of every trial for each panel, a picture in the
    paper's arrangement, and a page that says statement by statement whether it held, with
    numbers. An interrupted run continues from the trials that are in the CSVs.

    The accuracy of fig1 takes hours in full; `--quick` takes minutes for all three.

    Example:

        cofem paper fig3 --quick --output figures
    """
    if target in (Target.CALCIUM, Target.MRI):
        if trials is not None:
            raise ValueError(f"trials: cofem paper {target.value} draws no problems")
        application(target, data, output, quick, device)
        return
    from cofem.paper.study import Run

    with ProgressBar() as bar:
        run = Run(
            out=output, quick=quick, draws=trials, seed=seed, jobs=jobs, device=device.value,
            clock=clock.value, time_limit=time_limit, report=bar.show_as,
            memory_limit=None if memory_limit is None else memory_limit * 2**30,
        )  # fmt: skip
        names = ("fig1", "fig2", "fig3") if target is Target.ALL else (target.value,)
        outcomes = []
        for name in names:
            with only_run(output, name):
                outcomes.append(figure(name)(run))
    for outcome in outcomes:
        show(outcome.claims, outcome.page)


@contextlib.contextmanager
def only_run(folder: Path, name: str) -> Iterator[None]:
    """Refuse a second run of the same figure in one folder: trials would be there twice."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = folder / f"{name}a.csv"
    check_writable(trials, "output")
    trials.touch()
    with only_writer(trials):
        yield


def figure(name: str) -> Callable[[Any], Any]:
    """Return the function that makes a figure."""
    import importlib

    function: Callable[[Any], Any]
    function = importlib.import_module(f"cofem.paper.figures.{name}").run_figure
    return function


def application(target: Target, data: Path | None, out: Path, quick: bool, device: Device) -> None:
    """Run one of the paper's applications, which prints or returns what it found."""
    import importlib

    if data is None:
        raise ValueError(f"cofem paper {target.value} needs --data, the folder with the recordings")
    if not data.is_dir():
        raise ValueError(f"data: {data} is not a folder")
    out.mkdir(parents=True, exist_ok=True)
    check_writable(out / f"{target.value}.csv", "output")
    module = importlib.import_module(f"cofem.paper.{target.value}")
    options = {"device": device.value} if target is Target.MRI else {}
    with warnings_as_lines():
        found = module.run(data, out, quick, **options)
    show(found if isinstance(found, list) else (), found if isinstance(found, Path) else out)


def show(claims: Iterable[Claim], where: Path) -> None:
    """Print the verdicts, and where the rest is."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    colors = {True: "green", False: "red", None: "yellow"}
    for claim in claims:
        verdict = f"[{colors[claim.held]}]{claim.verdict}[/]"
        console.print(f"{verdict}: {escape(claim.text)}", highlight=False)
    console.print(escape(str(where)), highlight=False)
