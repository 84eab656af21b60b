"""How well is the noise found when it is not given, and at what cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cofem
from cofem import simulate
from common import Claim, Result, Table, median, note
from problems import DICTIONARIES, METHODS, Dictionary, run_fit

FACTOR = 3.0
COST = 3.0  # a fit and "little more than two" more


@dataclass(frozen=True)
class Found:
    """One problem, fitted with the noise given and with the noise found."""

    ratio: float
    error: float
    error_given: float
    cost: float

    @property
    def good(self) -> bool:
        """Whether β is within the factor that is claimed."""
        return 1 / FACTOR <= self.ratio <= FACTOR


Key = tuple[Dictionary, float]


def run(quick: bool) -> Result:
    D, n_seeds = (512, 1) if quick else (1024, 10)
    levels = (0.01, 0.1)
    found: dict[Key, list[Found]] = {
        (d, sigma): [_find(d, D, seed, sigma) for seed in range(n_seeds)]
        for d in DICTIONARIES
        for sigma in levels
    }
    return Result(
        "Noise that is not given",
        [_table(found, D), _others(D, n_seeds)],
        _claims(found),
        [
            "CoFEM with its default options and stopping rule. Cost: products of the whole fit, "
            "search included, over those of the fit that is given β.",
        ],
    )


def _find(dictionary: Dictionary, D: int, seed: int, sigma: float) -> Found:
    note(f"noise: {dictionary.name}, σ = {sigma:g}, seed {seed}")
    problem = dictionary.problem(D, seed, noise_std=sigma)
    given = run_fit(problem, METHODS["cofem"])
    found = run_fit(problem, METHODS["cofem"], noise_precision=None, prior="auto")
    return Found(
        ratio=found.noise_precision / problem.noise_precision,
        error=found.nrmse,
        error_given=given.nrmse,
        cost=found.products / given.products,
    )


def _table(found: dict[Key, list[Found]], D: int) -> Table:
    columns = ["dictionary", "σ", "seeds", "β̂/β median", "least", "largest", "within 3",
               "NRMSE, β̂", "NRMSE, β", "cost"]  # fmt: skip
    rows = []
    for (dictionary, sigma), of_case in found.items():
        ratios = [f.ratio for f in of_case]
        rows.append(
            [dictionary.name, f"{sigma:g}", len(of_case), median(ratios), min(ratios), max(ratios),
             f"{sum(f.good for f in of_case)} of {len(of_case)}",
             median(f.error for f in of_case), median(f.error_given for f in of_case),
             median(f.cost for f in of_case)]
        )  # fmt: skip
    return Table(f"Noise precision found at D = {D}", columns, rows)


def _others(D: int, n_seeds: int) -> Table:
    """Try the ends: no signal at all, hardly any noise, and nothing that is sparse."""
    cases: dict[str, Callable[[int], tuple[Any, np.ndarray, float]]] = {
        "noise alone, DCT, N = D/3": lambda seed: _noise_alone(D, seed),
        "DCT, f = 0.02, σ = 0.3": lambda seed: _simulated(D, seed, sparsity=0.02, noise_std=0.3),
        "DCT, f = 0.12, 79 dB": lambda seed: _simulated(D, seed, noise_std=1e-4),
        "dense z, N = 5 D, σ = 0.1": lambda seed: _least_squares(D // 4, seed, 5),
        "dense z, N = 2 D, σ = 0.1": lambda seed: _least_squares(D // 4, seed, 2),
    }
    rows = []
    for name, make in cases.items():
        ratios = []
        for seed in range(n_seeds):
            phi, y, beta = make(seed)
            post = cofem.fit(phi, y, method=METHODS["cofem"])
            ratios.append(float(post.noise_precision) / beta)
        rows.append([name, n_seeds, median(ratios), min(ratios), max(ratios)])
    return Table("Other data", ["data", "seeds", "β̂/β median", "least", "largest"], rows)


def _noise_alone(D: int, seed: int) -> tuple[Any, np.ndarray, float]:
    phi = simulate.dct(D, seed).phi
    return phi, np.random.default_rng(seed).normal(size=phi.shape[0]), 1.0


def _simulated(D: int, seed: int, **options: float) -> tuple[Any, np.ndarray, float]:
    problem = simulate.dct(D, seed, **options)
    return problem.phi, problem.y, problem.noise_precision


def _least_squares(D: int, seed: int, times: int) -> tuple[Any, np.ndarray, float]:
    random, N = np.random.default_rng(seed), times * D
    phi = random.normal(size=(N, D)) / math.sqrt(N)
    return phi, phi @ random.normal(size=D) + 0.1 * random.normal(size=N), 100.0


def _claims(found: dict[Key, list[Found]]) -> list[Claim]:
    everything = [f for of_case in found.values() for f in of_case]
    good = sum(f.good for f in everything)
    worst = max((f.ratio for f in everything), key=lambda ratio: abs(math.log(ratio)))
    cost = median(f.cost for f in everything)
    text = f"β within a factor {FACTOR:g} of the truth"
    return [
        Claim(
            text,
            good == len(everything),
            f"{good} of {len(everything)}, the worst β̂/β {worst:.2g}",
        ),
        Claim(
            f"finding β costs little more than two fits: at most {COST:g} fits in all",
            cost <= COST,
            f"median {cost:.1f}, largest {max(f.cost for f in everything):.1f}",
        ),
    ]
