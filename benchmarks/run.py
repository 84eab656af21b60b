#!/usr/bin/env python3
"""Run the benchmarks: python benchmarks/run.py [NAME …] [--quick] [--out FOLDER]."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

NAMES = (
    "accuracy",
    "work",
    "floor",
    "scaling",
    "rivals",
    "error_bars",
    "noise",
    "probes",
    "banded",
    "distributed",
    "sklearn_ard",
    "sklearn_prior",
    "prior_cost",
    "models",
    "calcium",
    "mri",
    "fields_meg",
    "fields_sindy",
    "fields_doa",
    "fields_drt",
)
HERE = Path(__file__).resolve().parent


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; return 1 if a claim was not reached, 2 if a benchmark broke."""
    parser = argparse.ArgumentParser(description="Measure cofem against its claims.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; default all")
    parser.add_argument("--quick", action="store_true", help="small sizes, about two minutes")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where files go")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    codes = [run_one(name, asked.quick, asked.out) for name in asked.names or NAMES]
    return max(codes)


def run_one(name: str, quick: bool, out: Path) -> int:
    """Run a benchmark, print it and write its file; the next one runs even if this breaks."""
    from common import describe_machine, print_result, write_markdown

    print(f"\n== {name} ==", flush=True)
    machine = describe_machine()
    began = time.perf_counter()
    try:
        result = importlib.import_module(name).run(quick)
    except Exception as error:
        print(f"{name} broke: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 2
    seconds = time.perf_counter() - began
    print_result(result, seconds)
    # Quick numbers never replace real ones.
    path = out / (f"{name}-quick.md" if quick else f"{name}.md")
    write_markdown(result, path, machine, quick=quick, seconds=seconds)
    return int(any(claim.reached is False for claim in result.claims))


if __name__ == "__main__":
    sys.exit(main())
