"""The core figures over the history of the code, so that a regression is a curve.

    python benchmarks/history.py             # the landmarks that are not there yet, the curves
    python benchmarks/history.py --here NAME # also the files as they are now, under that name

Every landmark is checked out into a temporary folder and measured by ``history_child.py``, in a
process of its own. Lines that are there are kept: results/history.csv is the memory. Exit code 1
if the last line is worse than the one before it by more than a fifth.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CHILD, RESULT = HERE / "history_child.py", HERE / "results" / "history.csv"
IMAGE = HERE.parent / "docs" / "images" / "history.png"
# Ends of the larger steps: commit, what had come.
LANDMARKS = {
    "5ecbcb8": "one loop, EM and CG", "fc12d1c": "families, rivals, checkpoints",
    "04bbf2f": "command line, paper", "7de1a8c": "noise by climbing",
    "e8de29b": "single-precision probes", "89e3d32": "a GPU in few launches",
    "b5228ba": "noise with a prior", "1e04795": "the learned prior",
    "b243717": "sampling, one controller", "35ecc1a": "faults survived",
    "2fdcbcf": "one loop for many", "736c00d": "compared by what is named",
}  # fmt: skip
FIGURES = (
    "products", "CG steps", "error over exact EM",
    "nothing told: error over exact EM told the noise", "time over that of the products",
)  # fmt: skip
WORSE = 1.2
Line = dict[str, str]


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Give a folder with the files of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", commit, "src"], cwd=HERE.parent, capture_output=True, check=True
        ).stdout  # fmt: skip
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        yield Path(folder, "src")


def measure(source: Path) -> dict[str, float]:
    """Run the child on a package."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA", "COFEM")}
    done = subprocess.run(
        [sys.executable, CHILD], capture_output=True, text=True, check=False, cwd=source,
        env={**os.environ, **single, "PYTHONPATH": str(source)},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def line_of(commit: str, name: str, source: Path) -> Line:
    """Measure a package; a line of the file."""
    try:
        found = {figure: f"{value:.4g}" for figure, value in measure(source).items()}
    except RuntimeError as error:
        return {"commit": commit, "what": f"{name} (does not run: {str(error)[:60]})"}
    return {"commit": commit, "what": name, **found}


def read() -> list[Line]:
    """Return the lines that are there."""
    if not RESULT.exists():
        return []
    with open(RESULT, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write(lines: list[Line]) -> None:
    """Write all lines, landmarks in their order first."""
    order = [*LANDMARKS]
    lines.sort(key=lambda line: order.index(line["commit"]) if line["commit"] in order else 99)
    with open(RESULT, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("commit", "what", *FIGURES), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def worse(lines: list[Line]) -> list[str]:
    """Say which figures of the last line are worse than those of the line before it."""
    whole = [line for line in lines if line.get(FIGURES[0])]
    if len(whole) < 2:
        return []
    before, last = whole[-2:]
    return [
        f"{figure}: {before[figure]} → {last[figure]}"
        for figure in FIGURES if float(last[figure]) > WORSE * float(before[figure])
    ]  # fmt: skip


def draw(lines: list[Line]) -> None:
    """Draw a curve for every figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [line for line in lines if line.get(FIGURES[0])]
    figure, axes = plt.subplots(len(FIGURES), 1, figsize=(8, 10), sharex=True, layout="constrained")
    places = range(len(shown))
    for panel, name in zip(axes, FIGURES, strict=True):
        values = [float(line[name]) for line in shown]
        panel.plot(places, values, "o-", color="C0")
        panel.set_title(name, fontsize=10, loc="left")
        panel.set_ylim(0, 1.25 * max(values))
        panel.grid(alpha=0.3)
        for place, value in zip(places, values, strict=True):
            panel.annotate(
                f"{value:.4g}", (place, value), (0, 5), textcoords="offset points", ha="center",
                fontsize=8,
            )  # fmt: skip
    names = [line["what"] for line in shown]
    axes[-1].set_xticks(places, names, rotation=30, ha="right", fontsize=9)
    figure.savefig(IMAGE, dpi=110)
    plt.close(figure)


def main() -> int:
    """Measure what is missing, and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--here", default="", metavar="NAME")
    asked = parser.parse_args()
    lines = read()
    for commit, name in LANDMARKS.items():
        if commit not in [line["commit"] for line in lines]:
            with checked_out(commit) as source:
                lines.append(line_of(commit, name, source))
            print(lines[-1], flush=True)
            write(lines)
    if asked.here:
        lines.append(line_of("files", asked.here, HERE.parent / "src"))
        print(lines[-1], flush=True)
        write(lines)
    draw(lines)
    found = worse(lines)
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
