"""How many probes: accuracy and work for every number of them, with shrinkage and without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cofem
from common import Claim, Result, Table, median, note
from problems import CONVOLUTION, DCT, DENSER_DCT, GAUSSIAN, Dictionary, Fit, fit_of, run_fit

NUMBERS = (2, 4, 8, 16, 32)
# Near the phase transition EM is slow: after 30 iterations speed would be compared, not answers.
ITERATIONS = {DENSER_DCT: 50}
USUAL_ITERATIONS = 30
EXACT_UP_TO = 2**11  # exact EM beyond would take longer than all the rest
MARGIN = 0.2  # points of NRMSE above exact EM that still count as the same answer
STEADY = 1.25  # growth of the CG steps that still counts as none, over seeds' scatter


@dataclass(frozen=True)
class Setting:
    """One way of choosing probes."""

    n_probes: int
    shrinkage: bool

    @property
    def method(self) -> cofem.CoFEM:
        """The default with this choice put in."""
        return cofem.CoFEM(n_probes=self.n_probes, shrinkage=self.shrinkage)


@dataclass(frozen=True)
class Measured:
    """Fits of one setting on the seeds of one size."""

    fits: list[Fit]
    exact: list[float]

    @property
    def error(self) -> float:
        """Median NRMSE in percent."""
        return median(f.nrmse for f in self.fits)

    @property
    def worst(self) -> float:
        """Largest NRMSE."""
        return max(f.nrmse for f in self.fits)

    @property
    def excess(self) -> float:
        """Largest NRMSE above exact EM's on the same problem; NaN where that is unknown."""
        pairs = zip(self.fits, self.exact, strict=False)
        return max((f.nrmse - e for f, e in pairs), default=float("nan"))

    @property
    def steps(self) -> float:
        """CG steps of an iteration."""
        return median(f.learning_steps for f in self.fits)

    @property
    def products(self) -> float:
        """Products of a whole fit, reporting step included."""
        return median(f.products for f in self.fits)


SETTINGS = [Setting(k, shrinkage) for shrinkage in (True, False) for k in NUMBERS]
DEFAULT = Setting(cofem.CoFEM().n_probes, cofem.CoFEM().shrinkage)
Results = dict[tuple[Dictionary, int], dict[Setting, Measured]]


def run(quick: bool) -> Result:
    sizes = [2**9, 2**12] if quick else [2**k for k in range(9, 19)]
    others = [2**9] if quick else [2**10, 2**12]
    cases = [(DCT, D) for D in sizes]
    cases += [(d, D) for d in (DENSER_DCT, GAUSSIAN, CONVOLUTION) for D in others]
    settings = list(dict.fromkeys([*SETTINGS, DEFAULT]))
    results = {case: _measure(*case, settings, quick) for case in cases}
    names = dict.fromkeys(d for d, _ in cases)
    return Result(
        "Number of probes",
        [*(_table(d, results) for d in names), _cheapest_table(results)],
        _claims(results),
        [
            f"{USUAL_ITERATIONS} iterations ({ITERATIONS[DENSER_DCT]} at f = 0.14), σ = 0.01, "
            "β given. CG steps are those of the slowest system, the mean's, averaged over the "
            "iterations; products include the reporting "
            "step. Medians over seeds; worst is the largest NRMSE, and excess the largest "
            "difference to exact EM on the same problem.",
            f"The default is {DEFAULT.n_probes} probes, shrinkage {_on(DEFAULT.shrinkage)}.",
        ],
    )


def _measure(
    dictionary: Dictionary, D: int, settings: Iterable[Setting], quick: bool
) -> dict[Setting, Measured]:
    n_seeds = 1 if quick or D > 2**14 else 3 if D > 2**11 else 5
    problems = [dictionary.problem(D, seed) for seed in range(n_seeds)]
    iterations = ITERATIONS.get(dictionary, USUAL_ITERATIONS)
    exact: list[float] = []
    if D <= EXACT_UP_TO:
        note(f"probes: exact EM, {dictionary.name}, D = {D}")
        exact = [
            fit_of(dictionary, D, seed, dictionary.exact, iterations).nrmse
            for seed in range(n_seeds)
        ]
    measured = {}
    for setting in settings:
        note(f"probes: {dictionary.name}, D = {D}, {_name(setting)}")
        fits = [run_fit(p, setting.method, max_iter=iterations, tol=0.0) for p in problems]
        measured[setting] = Measured(fits, exact)
    return measured


def _on(shrinkage: bool) -> str:
    return "on" if shrinkage else "off"


def _name(setting: Setting) -> str:
    return f"K = {setting.n_probes}, shrinkage {_on(setting.shrinkage)}"


def _table(dictionary: Dictionary, results: Results) -> Table:
    columns = ["D", "shrinkage", "K", "seeds", "NRMSE %", "worst", "excess", "CG steps",
               "products"]  # fmt: skip
    rows = []
    for (of, D), measured in results.items():
        if of is not dictionary:
            continue
        for setting, m in measured.items():
            rows.append([D, _on(setting.shrinkage), setting.n_probes, len(m.fits), m.error,
                         m.worst, m.excess, m.steps, m.products])  # fmt: skip
    return Table(dictionary.name, columns, rows)


def _claims(results: Results) -> list[Claim]:
    default = {case: measured[DEFAULT] for case, measured in results.items()}
    compared = [m for m in default.values() if m.exact]
    excess = max(m.excess for m in compared)
    of_dct = {D: m for (d, D), m in default.items() if d is DCT}
    growth = of_dct[max(of_dct)].steps / of_dct[min(of_dct)].steps
    return [
        Claim(
            f"the default is within {MARGIN:g} points of exact EM wherever that was run",
            excess <= MARGIN,
            f"largest excess {excess:+.3f} points",
        ),
        Claim(
            f"the default's CG steps do not grow from D = {min(of_dct)} to {max(of_dct)} (DCT)",
            growth <= STEADY,
            f"ratio {growth:.2f}",
        ),
    ]


def _cheapest_table(results: Results) -> Table:
    """Hold the default's work against the cheapest setting that is as accurate."""
    rows = []
    for (dictionary, D), measured in results.items():
        least = min(m.worst for m in measured.values())
        accurate = {s: m for s, m in measured.items() if m.worst <= least + MARGIN}
        best = min(accurate, key=lambda setting: accurate[setting].products)
        cost = measured[DEFAULT].products / accurate[best].products
        rows.append([dictionary.name, D, best.n_probes, _on(best.shrinkage), cost])
    return Table(
        f"The cheapest setting whose worst error is within {MARGIN:g} points of the best",
        ["dictionary", "D", "K", "shrinkage", "default's products over its"],
        rows,
    )
