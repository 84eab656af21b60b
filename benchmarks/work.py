"""How many products with Φ a fit needs, beside the paper's setting."""

from __future__ import annotations

from common import Claim, Result, Table, median, note
from problems import DICTIONARIES, Dictionary, fit_of

AT_MOST, AIM = 1 / 3, 1 / 4


def run(quick: bool) -> Result:
    D, n_seeds = (512, 2) if quick else (1024, 10)
    ratios: dict[str, list[float]] = {}
    rows = []
    for dictionary in DICTIONARIES:
        note(f"work: {dictionary.name}, D = {D}")
        ours, theirs = _products(dictionary, D, n_seeds)
        ratios[dictionary.name] = [a / b for a, b in zip(ours, theirs, strict=True)]
        of_this = ratios[dictionary.name]
        rows.append(
            [dictionary.name, n_seeds, median(ours), median(theirs), median(of_this), max(of_this)]
        )
    columns = ["dictionary", "seeds", "CoFEM", "paper()", "median ratio", "worst ratio"]
    return Result(
        "Products with Φ",
        [Table(f"Rows multiplied by Φ or Φᴴ in 50 iterations at D = {D}", columns, rows)],
        _claims(ratios),
        [
            "CoFEM's count includes its reporting step (32 more systems, for the error bars and "
            "the evidence); paper() has none."
        ],
    )


def _products(dictionary: Dictionary, D: int, n_seeds: int) -> tuple[list[int], list[int]]:
    ours = [fit_of(dictionary, D, seed, "cofem").products for seed in range(n_seeds)]
    theirs = [fit_of(dictionary, D, seed, "paper").products for seed in range(n_seeds)]
    return ours, theirs


def _claims(ratios: dict[str, list[float]]) -> list[Claim]:
    everything = [ratio for of_dictionary in ratios.values() for ratio in of_dictionary]
    worst = max(everything)
    largest_median = max(median(of_dictionary) for of_dictionary in ratios.values())
    return [
        Claim(
            "at most a third of paper()'s products on every problem",
            worst <= AT_MOST,
            f"worst of {len(everything)} problems: {worst:.3f}",
        ),
        Claim(
            "the aim: at most a quarter in the median of every dictionary",
            largest_median <= AIM,
            f"largest median: {largest_median:.3f}",
        ),
    ]
