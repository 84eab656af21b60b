"""``cofem demo``: a problem with a known truth, solved and drawn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cofem.cli import report
from cofem.cli.errors import warnings_as_lines
from cofem.cli.figure import check_figure, new_figure, save


def demo(
    size: Annotated[
        int, typer.Option(min=64, help="Number of unknowns D; a third as many samples are drawn.")
    ] = 65_536,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same problem and answer.")
    ] = 0,
    figure: Annotated[
        Path, typer.Option(help="Where to draw truth against estimate: .png, .pdf or .svg.")
    ] = Path("cofem-demo.png"),
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Recover a sparse signal from a third of its samples, with error bars.

    A signal with 12 % non-zero DCT coefficients is measured at a third of its samples,
    with noise of standard deviation 0.01. The fit is told none of this: it learns the
    noise and the prior from the data. No matrix is stored and no covariance is formed.

    The table shows the error of the estimate (size of the error over size of the truth),
    how many coefficients are named as not zero, how many of these are false, how often
    their 95 % interval holds the truth, and what it cost: iterations, steps of conjugate
    gradients, products with Φ or its adjoint, seconds, and the peak memory of the whole
    process. The first run on a machine also compiles, which takes some seconds more.

    Example:

        cofem demo --size 4096 --figure demo.png
    """
    from cofem import fit, simulate

    check_figure(figure)
    problem = simulate.dct(size, seed)
    start = time.perf_counter()
    with warnings_as_lines():
        post = fit(problem.phi, problem.y, seed=seed, progress=True)
    seconds = time.perf_counter() - start
    facts = measure(problem, post) | {
        "seconds": seconds,
        "peak_memory_mib": report.peak_memory_mib(),
        "figure": str(figure),
    }
    draw(problem, post, figure)
    if json:
        report.show_json(facts)
    else:
        show(facts)


def measure(problem: Any, post: Any) -> dict[str, Any]:
    """Compare the posterior with the truth, and count the work."""
    import numpy as np

    from cofem.simulate import nrmse

    low, high = post.interval(0.95)
    spikes, named = problem.z != 0, post.support()
    covered = (low <= problem.z) & (problem.z <= high)
    return {
        "method": post.method,
        "unknowns": problem.phi.shape[1],
        "measurements": problem.phi.shape[0],
        "nonzeros": int(spikes.sum()),
        "noise_std": float(post.noise_precision**-0.5),
        "true_noise_std": float(problem.noise_precision**-0.5),
        "nrmse": nrmse(post.mean, problem.z),
        "named": int(named.sum()),
        "false": int(np.sum(named & ~spikes)),
        "coverage": 100.0 * float(np.mean(covered[named])) if named.any() else None,
        "converged": bool(post.converged),
        "iterations": len(post.history["iteration"]),
        "cg_steps": sum(post.history["cg_steps"]),
        "products": post.history["products"][-1],
    }


def show(facts: dict[str, Any]) -> None:
    """Print the table."""
    memory = facts["peak_memory_mib"]
    report.show_table(
        f"{facts['nonzeros']:,} of {facts['unknowns']:,} coefficients "
        f"from {facts['measurements']:,} samples",
        {
            "error": f"{facts['nrmse']:.2f} %",
            "noise, learned": f"{facts['noise_std']:.4f}, true {facts['true_noise_std']:.4f}",
            "named as not zero": f"{facts['named']:,}",
            "of these false": f"{facts['false']:,}",
            "their 95 % intervals hold the truth": f"{report.number(facts['coverage'], 3)} %",
            "iterations": f"{facts['iterations']:,}",
            "CG steps": f"{facts['cg_steps']:,}",
            "products with Φ": f"{facts['products']:,}",
            "time": f"{facts['seconds']:.1f} s",
            "peak memory": "—" if memory is None else f"{memory:,.0f} MiB",
            "figure": facts["figure"],
        },
    )


def draw(problem: Any, post: Any, path: Path) -> None:
    """Draw truth against estimate, and below it the error that the top is too coarse for."""
    from cofem import plot

    figure = new_figure(height=6)
    top, bottom = figure.subplots(2, sharex=True)
    plot.posterior(post, problem.z, ax=top)
    plot.errors(post, problem.z, ax=bottom)
    top.set_xlabel("")
    save(figure, path)
