"""``cofem solve``: the posterior of a problem that lies in files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cofem.cli import report
from cofem.cli.errors import warnings_as_lines
from cofem.cli.figure import check_figure, new_figure, save


def solve(
    phi: Annotated[
        Path,
        typer.Argument(
            metavar="PHI",
            help="The matrix Φ, N × D: .npy, .npz, .mtx (Matrix Market), .mat (MATLAB), .csv, .tsv "
            "or .txt. An .npz or .mat holds one array, or one called phi, dense or sparse. A .npy "
            "of more than 256 MiB is not read but mapped, so it may be larger than the memory.",
        ),
    ],
    y: Annotated[
        Path,
        typer.Argument(
            metavar="Y",
            help="The N measurements, in any of these formats; the array is called y. "
            "L rows of N are L joint tasks: their z have the same non-zero places.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Where to write: an .npz, the whole posterior, or a .csv, a line for every "
            "unknown with its mean, standard deviation and 95 % interval.",
        ),
    ],
    noise_precision: Annotated[
        float | None,
        typer.Option(
            metavar="B",
            help="1/σ² of the noise. If it is not given, it is learned from the data together "
            "with the prior.",
        ),
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="Add an unknown constant: y = Φz + constant.")
    ] = False,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="Use that all entries of z are ≥ 0.")
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, cofem, em, woodbury, amp, vi or sequential: auto chooses by structure "
            "and size; cofem needs memory for a few vectors only; em and woodbury are exact, "
            "for small problems; the others are there to compare.",
        ),
    ] = "auto",
    max_iter: Annotated[int, typer.Option(metavar="N", help="Largest number of iterations.")] = 100,
    tol: Annotated[
        float,
        typer.Option(metavar="T", help="Smaller: more iterations; 0: exactly --max-iter."),
    ] = 1e-4,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same answer.")
    ] = 0,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="F.png", help="Also draw the estimate with its error bars."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Find the sparse z in y = Φz + noise, with error bars, and write it to a file.

    An .npz holds the whole posterior; in Python, `cofem.load("OUT.npz")`
    gives it back with its mean, its standard deviations, intervals and history. The file
    appears when it is complete: after an error or Ctrl-C nothing is left.

    An answer that has not converged is written too, and a warning on the error stream
    says what to do about it.

    Example:

        cofem solve phi.npy y.csv -o z.csv --figure z.png
    """
    import cofem
    from cofem.cli.table import write_posterior
    from cofem.files import read_matrix

    check_outputs(output, figure, inputs=(phi, y))
    matrix = read_matrix(phi, "phi")
    measurements = measured(y, matrix)
    if method == "auto" and is_mapped(matrix):
        method = "cofem"  # it only multiplies; the exact methods make matrices of their own
    start = time.perf_counter()
    with warnings_as_lines():
        post = cofem.fit(
            matrix,
            measurements,
            noise_precision=noise_precision,
            intercept=intercept,
            nonnegative=nonnegative,
            method=method,
            max_iter=max_iter,
            tol=tol,
            seed=seed,
            progress=True,
        )
    seconds = time.perf_counter() - start
    if output.suffix.lower() == ".csv":
        write_posterior(post, output)
    else:
        post.save(output)
    if figure is not None:
        draw(post, figure)
    facts = summarise(post) | {"seconds": seconds, "output": str(output)}
    if json:
        report.show_json(facts)
    else:
        show(facts)


def measured(path: Path, matrix: Any) -> Any:
    """Read y; for a mapped matrix in single precision, in single precision too.

    A fit runs in double precision as soon as one of the two is double, and that would
    need a copy of the matrix, twice its size.
    """
    from cofem.files import read_array

    values = read_array(path, "y")
    if is_mapped(matrix) and matrix.dtype.char in "fF":
        values = values.astype("F" if values.dtype.kind == "c" else "f")
    return values


def is_mapped(matrix: Any) -> bool:
    """Whether a matrix lies in a file and not in memory."""
    import numpy as np

    return isinstance(getattr(matrix, "base", None), np.memmap)


def check_outputs(output: Path, figure: Path | None, inputs: tuple[Path, Path]) -> None:
    """Refuse what cannot be written, before the work is done."""
    from cofem.files import check_writable

    if output.suffix.lower() not in (".npz", ".csv"):
        raise ValueError(
            f"output: {output} does not end in .npz (the whole posterior) or .csv (a table)"
        )
    check_writable(output, "output")
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"output: {output} would overwrite an input")
    if figure is not None:
        check_figure(figure)


def summarise(post: Any) -> dict[str, Any]:
    """Collect what the table and the JSON object tell."""
    from cofem import backend

    return {
        "method": post.method,
        "converged": bool(post.converged),
        "message": post.message,
        "iterations": len(post.history["iteration"]),
        "noise_precision": post.noise_precision,
        "log_evidence": post.log_evidence,
        **(
            {}
            if post.intercept is None
            else {"intercept": post.intercept, "intercept_std": post.intercept_std}
        ),
        "n_support": int(backend.to_numpy(post.support()).sum()),
        "products": post.history["products"][-1],
    }


def show(facts: dict[str, Any]) -> None:
    """Print the table."""
    report.show_table(
        "Posterior",
        {
            "method": facts["method"],
            "converged": "yes" if facts["converged"] else "no",
            "EM iterations": report.number(facts["iterations"]),
            "noise precision": report.number(facts["noise_precision"]),
            "log evidence": report.number(facts["log_evidence"]),
            **{
                name.replace("_", " "): report.number(facts[name])
                for name in ("intercept", "intercept_std")
                if name in facts
            },
            "not zero, with 95 % certainty": report.number(facts["n_support"]),
            "products with Φ": report.number(facts["products"]),
            "time": f"{facts['seconds']:.1f} s",
            "written to": facts["output"],
        },
    )


def draw(post: Any, path: Path) -> None:
    """Draw the estimate with its error bars."""
    from cofem import plot

    figure = new_figure(height=4)
    plot.posterior(post, ax=figure.subplots())
    save(figure, path)
