"""How far a fit is from the time of its own products with Φ."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import cofem
from cofem import backend, simulate
from cofem.operators import Dense
from common import THREAD_VARIABLES, Claim, Result, Table, cores, note
from isolated import isolated
from recording import Recorder, Replay

AT_MOST = 1.5


@dataclass(frozen=True)
class Case:
    """One row of the table; ``claimed`` rows are those that the claim speaks of."""

    dictionary: str
    D: int
    single: bool
    threads: int
    repeats: int
    iterations: int
    claimed: bool


def run(quick: bool) -> Result:
    cases = _cases(quick)
    measured = []
    for case in cases:
        note(f"floor: {case.dictionary}, D = {case.D}, {_precision(case)}, {case.threads} threads")
        settings = dict.fromkeys(THREAD_VARIABLES, str(case.threads))
        outcome = isolated(measure, environment=settings, case=asdict(case))
        if outcome.error:
            raise RuntimeError(f"floor: {outcome.error}")
        measured.append((case, outcome.value))
    return Result(
        "Close to the floor",
        [_table(measured)],
        _claims(measured),
        [
            "30 iterations (6 for the dense matrix) and the reporting step, β given. The floor "
            "replays every product of the fit bare: the same batches, shared by as many "
            "threads, a solve beginning when the one before it has ended. Best of several runs, "
            "in turns.",
            "Waiting: the share of the replay in which a thread had nothing left to do while "
            "another still worked on the same solve. It is part of the floor.",
            "Subnormal: numbers below the normal range in α and the mean of all iterations and in "
            "the variance.",
            *_comparisons(measured),
        ],
    )


def _cases(quick: bool) -> list[Case]:
    if quick:
        dct, dense, repeats = [2**13, 2**15], 1024, {2**13: 3, 2**15: 2, 1024: 2}
    else:
        dct, dense = [2**15, 2**17, 2**18], 16384
        repeats = {2**15: 12, 2**17: 8, 2**18: 6, 16384: 2}
    many = cores()
    variants = [(False, many), (True, many)] + ([(False, 1)] if many > 1 else [])
    if quick:
        variants = variants[:1]
    sizes = [("DCT", D) for D in dct] + [("Gaussian", dense)]
    return [
        Case(
            name,
            D,
            single,
            threads,
            repeats[D],
            _iterations(name, quick),
            claimed=not single and threads == many,
        )
        for name, D in sizes
        for single, threads in (variants if name == "DCT" else variants[:1])
    ]


def _iterations(dictionary: str, quick: bool) -> int:
    # A step reads the half gigabyte of the dense matrix twice: a few iterations will do.
    return 30 if dictionary == "DCT" or quick else 6


def measure(case: dict[str, Any]) -> dict[str, float]:
    """Time a fit and its replay in turns; runs in a process with the case's threads."""
    this = Case(**case)
    problem = _problem(this)
    recorder = Recorder(problem.phi)
    with recorder.watching():
        post, subnormal = _watched_fit(recorder, problem, this.iterations)
    replay = Replay(problem.phi, recorder.stages, backend.n_threads())
    fits, floors, waits = [], [], []
    for _ in range(this.repeats):
        began = time.perf_counter()
        _fit(problem.phi, problem, this.iterations)
        fits.append(time.perf_counter() - began)
        seconds, waiting = replay.run()
        floors.append(seconds)
        waits.append(waiting)
    replay.close()
    return {
        "fit": min(fits),
        "floor": min(floors),
        "waiting": waits[int(np.argmin(floors))],
        "subnormal": subnormal,
        "products": post.history["products"][-1],
        "seen": recorder.products,
        "nrmse": simulate.nrmse(post.mean, problem.z),
    }


def _problem(case: Case) -> simulate.Problem:
    make = {"DCT": simulate.dct, "Gaussian": simulate.gaussian}[case.dictionary]
    problem = make(case.D, seed=0)
    if not case.single:
        return problem
    phi = problem.phi
    if isinstance(phi, Dense):
        phi = Dense(phi.matrix.astype(np.float32))
    y = problem.y.astype(np.float32)
    return simulate.Problem(problem.name, phi, y, problem.z, problem.noise_std)


def _fit(phi: Any, problem: simulate.Problem, iterations: int, **options: Any) -> cofem.Posterior:
    return cofem.fit(
        phi,
        problem.y,
        noise_precision=problem.noise_precision,
        method="cofem",
        prior="ard",
        max_iter=iterations,
        tol=0.0,
        **options,
    )


def _watched_fit(
    phi: Any, problem: simulate.Problem, iterations: int
) -> tuple[cofem.Posterior, int]:
    """Fit, and count subnormal numbers as they come by."""
    counts = []
    post = _fit(
        phi,
        problem,
        iterations,
        callback=lambda state: counts.append(_subnormal(state.mean) + _subnormal(state.precision)),
    )
    return post, sum(counts) + _subnormal(post.variance)


def _subnormal(x: np.ndarray) -> int:
    return int(np.count_nonzero((x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny)))


def _precision(case: Case) -> str:
    return "float32" if case.single else "float64"


def _table(measured: list[tuple[Case, dict[str, float]]]) -> Table:
    columns = ["dictionary", "D", "precision", "threads", "fit s", "products alone s", "ratio",
               "waiting %", "subnormal", "products", "NRMSE %"]  # fmt: skip
    rows = [
        [case.dictionary, case.D, _precision(case), case.threads, m["fit"], m["floor"],
         m["fit"] / m["floor"], 100 * m["waiting"], m["subnormal"], m["seen"], m["nrmse"]]
        for case, m in measured
    ]  # fmt: skip
    return Table("Seconds of a fit and of its operator products alone", columns, rows)


def _claims(measured: list[tuple[Case, dict[str, float]]]) -> list[Claim]:
    claims = []
    for case, m in measured:
        if case.claimed:
            ratio = m["fit"] / m["floor"]
            text = f"{case.dictionary}, D = {case.D}: at most {AT_MOST:g} times its bare products"
            claims.append(Claim(text, ratio <= AT_MOST, f"{ratio:.2f}"))
    subnormal = sum(m["subnormal"] for _, m in measured)
    claims.append(Claim("no subnormal numbers", subnormal == 0, f"{subnormal:g} found"))
    honest = [m["seen"] == m["products"] for _, m in measured]
    claims.append(
        Claim(
            "the history counts the products that the operator saw",
            all(honest),
            f"equal in {sum(honest)} of {len(honest)} fits",
        )
    )
    return claims


def _comparisons(measured: list[tuple[Case, dict[str, float]]]) -> list[str]:
    """Say what more threads and single precision bring, where both sides were measured."""
    times = {(c.dictionary, c.D, c.single, c.threads): m["fit"] for c, m in measured}
    lines = []
    for (name, D, single, threads), seconds in times.items():
        alone = times.get((name, D, False, 1))
        narrow = times.get((name, D, True, threads))
        if not single and threads > 1 and alone is not None:
            lines.append(f"{name}, D = {D}: {alone / seconds:.2f} times as fast with {threads} "
                         "threads as with one.")  # fmt: skip
        if not single and narrow is not None:
            lines.append(f"{name}, D = {D}: {seconds / narrow:.2f} times as fast in float32.")
    return lines
