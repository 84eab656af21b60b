"""The command line."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from cofem.cli.bench import bench
from cofem.cli.calcium import calcium
from cofem.cli.demo import demo
from cofem.cli.errors import INTERRUPTED, INTERRUPTION, OneLineErrors
from cofem.cli.mri import mri
from cofem.cli.page import page
from cofem.cli.paper import paper
from cofem.cli.solve import solve

__all__ = ["app", "main"]

app = typer.Typer(
    name="cofem",
    cls=OneLineErrors,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(solve)
app.command("report")(page)
app.command()(calcium)
app.command()(mri)
app.command()(paper)
app.command()(bench)


@app.callback(invoke_without_command=True)
def cofem(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Sparse solutions of y = Φz + noise, with error bars and without a λ to tune.

    Start with **cofem demo**, which draws a problem of 65,536 unknowns and
    solves it. **cofem solve** does the same for your own files. Every command
    explains itself with **--help**.

    Example:

        cofem solve phi.npy y.csv -o z.csv

    Exit code 0: done (a warning says if the fit has not converged). 2: something
    that you gave is wrong, and one line on the error stream says what. 130: interrupted;
    no half-written file is left.
    """
    if version:
        from cofem import __version__

        typer.echo(f"cofem {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may not be able to show Φ
            stream.reconfigure(errors="replace")
    code: int | str | None = 0
    try:
        app(prog_name="cofem")
    except KeyboardInterrupt:  # while typer reads the commands
        print(INTERRUPTION, file=sys.stderr)
        code = INTERRUPTED
    except SystemExit as leaving:
        code = leaving.code
    if code == INTERRUPTED:
        # Everything is closed. If the interrupt went through a compiled module, Python
        # would now end by the signal and not with the exit code.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    raise SystemExit(code)
