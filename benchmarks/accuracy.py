"""Whether CoFEM gives the answer of exact EM."""

from __future__ import annotations

from common import Claim, Result, Table, median, note, within
from problems import DCT, DICTIONARIES, Dictionary, Fit, fit_of

GOOD = 3.0  # percent: what counts as recovered
LARGE_GOOD = 1.5
DIFFERENCE = 0.2


def run(quick: bool) -> Result:
    D, n_seeds = (512, 2) if quick else (1024, 10)
    large, large_seeds = ([2**13], 1) if quick else ([2**13, 2**15], 3)
    compared = {d: _compare(d, D, n_seeds) for d in DICTIONARIES}
    big = [(size, _large(size, large_seeds)) for size in large]
    return Result(
        "The same answer as exact EM",
        [_table(compared, D), _large_table(big)],
        [*_claims(compared), *_large_claims(big)],
        [
            "50 iterations each, σ = 0.01, β given. "
            "Exact EM is Woodbury, or Cholesky for the convolution; the two agree to rounding.",
            f"CoFEM.paper() {_recovered(compared, 2)}.",
        ],
    )


Trio = tuple[Fit, Fit, Fit]


def _compare(dictionary: Dictionary, D: int, n_seeds: int) -> list[Trio]:
    """Exact EM, CoFEM and the paper's setting on every seed."""
    note(f"accuracy: {dictionary.name}, D = {D}")
    return [
        (
            fit_of(dictionary, D, seed, dictionary.exact),
            fit_of(dictionary, D, seed, "cofem"),
            fit_of(dictionary, D, seed, "paper"),
        )
        for seed in range(n_seeds)
    ]


def _large(D: int, n_seeds: int) -> list[Fit]:
    note(f"accuracy: {DCT.name}, D = {D}")
    return [fit_of(DCT, D, seed, "cofem") for seed in range(n_seeds)]


def _table(compared: dict[Dictionary, list[Trio]], D: int) -> Table:
    columns = ["dictionary", "seeds", "exact EM", "worst", "CoFEM", "worst", "paper()", "worst",
               "median abs. difference", "exact s", "CoFEM s", "paper() s"]  # fmt: skip
    rows = []
    for dictionary, trios in compared.items():
        errors = [[trio[i].nrmse for trio in trios] for i in range(3)]
        row: list[object] = [dictionary.name, len(trios)]
        for of_method in errors:
            row += [median(of_method), max(of_method)]
        row.append(median(abs(a - b) for a, b in zip(errors[0], errors[1], strict=True)))
        row += [median(trio[i].seconds for trio in trios) for i in range(3)]
        rows.append(row)
    return Table(f"NRMSE in percent at D = {D}: median and worst over seeds", columns, rows)


def _large_table(big: list[tuple[int, list[Fit]]]) -> Table:
    rows = [
        [D, len(fits), median(f.nrmse for f in fits), max(f.nrmse for f in fits),
         median(f.seconds for f in fits)]
        for D, fits in big
    ]  # fmt: skip
    return Table(
        "NRMSE in percent where no exact EM fits, DCT, f = 0.12",
        ["D", "seeds", "CoFEM", "worst", "seconds"],
        rows,
    )


def _recovered(compared: dict[Dictionary, list[Trio]], index: int) -> str:
    """Say how often a method recovers z where exact EM does."""
    also, total = _count(compared, index)
    return f"ends below {GOOD:g} % on {also} of the {total} problems on which exact EM does"


def _count(compared: dict[Dictionary, list[Trio]], index: int) -> tuple[int, int]:
    trios = [trio for of_dictionary in compared.values() for trio in of_dictionary]
    recovered = [trio for trio in trios if trio[0].nrmse < GOOD]
    return sum(trio[index].nrmse < GOOD for trio in recovered), len(recovered)


def _claims(compared: dict[Dictionary, list[Trio]]) -> list[Claim]:
    trios = [trio for of_dictionary in compared.values() for trio in of_dictionary]
    text = f"wherever exact EM ends below {GOOD:g} % NRMSE, CoFEM's default does too"
    claims = [within(*_count(compared, 1), text)]
    difference = median(abs(exact.nrmse - ours.nrmse) for exact, ours, _ in trios)
    claims.append(
        Claim(
            f"the median difference between CoFEM and exact EM is below {DIFFERENCE:g} points",
            difference < DIFFERENCE,
            f"{difference:.3f} points over {len(trios)} problems",
        )
    )
    return claims


def _large_claims(big: list[tuple[int, list[Fit]]]) -> list[Claim]:
    return [
        within(
            sum(f.nrmse < LARGE_GOOD for f in fits),
            len(fits),
            f"at D = {D} CoFEM ends below {LARGE_GOOD:g} %",
        )
        for D, fits in big
    ]
