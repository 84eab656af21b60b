"""What each model of docs/notes/models.md is worth, over several problems; and the page's figures.

``python benchmarks/models.py`` prints the tables; ``--figures FOLDER`` draws the figures, from
the page's own examples, and prints nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import cofem
import models_figures as figures
from common import Claim, Result, Table, note, print_result
from models_common import PROBLEMS, QUICK_PROBLEMS
from models_evidence import evidence_choice, evidence_error
from models_joint import identical, joint
from models_noise import unequal_noise
from models_sparsifier import piecewise
from models_structure import coupling, groups
from models_values import complex_data, nonnegative

FIGURES: dict[str, figures.Figure] = {
    "joint": ((12, 3.4), (1, 3), figures.draw_joint),
    "groups": ((10, 3.4), (1, 2), figures.draw_groups),
    "coupling": ((10, 5.4), (2, 3), figures.draw_coupling),
    "complex": ((9, 5), (2, 1), figures.draw_complex),
    "nonnegative": ((9, 6.4), (3, 1), figures.draw_nonnegative),
    "banded": ((9, 4.6), (2, 1), figures.draw_banded),
    "evidence": ((10, 3.6), (1, 2), figures.draw_evidence),
    "sparsifier": ((9, 5.4), (2, 1), figures.draw_sparsifier),
}


def run(quick: bool) -> Result:
    seeds = range(QUICK_PROBLEMS if quick else PROBLEMS)
    parts: list[Callable[[range], tuple[list[Table], list[Claim]]]] = [
        joint, unequal_noise, identical, groups, coupling, complex_data, nonnegative,
        evidence_choice, evidence_error, piecewise,
    ]  # fmt: skip
    tables, claims = [], []
    for part in parts:
        note(f"models: {part.__name__.replace('_', ' ')}")
        more_tables, more_claims = part(seeds)
        tables += more_tables
        claims += more_claims
    return Result("Models", tables, claims, [
        f"{len(seeds)} problems a row unless a table says otherwise; medians over them. The noise "
        "precision is given, unless the table says otherwise. docs/models.md explains the models.",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the models, or draw them.")
    parser.add_argument("--quick", action="store_true", help="three problems instead of ten")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the page's figures")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cofem.ConvergenceWarning)
    if asked.figures is not None:
        figures.draw(asked.figures, FIGURES)
        return 0
    began = time.perf_counter()
    result = run(asked.quick)
    print_result(result, time.perf_counter() - began)
    return int(any(claim.reached is False for claim in result.claims))


if __name__ == "__main__":
    sys.exit(main())
