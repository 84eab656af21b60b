"""From the data of P problems to what is kept of each: which ends are believed, and in what units.

An end is believed as :mod:`cofem.learning.certificate` and ``starts`` believe that of one problem:
certified, not crowded, and most of y explained. What is not believed is left to be fitted alone,
with the other starts and everything else that one fit has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning import certificate as sure
from cofem.learning.noise import total_squares
from cofem.learning.sites.propagation import FEW_APART, Propagation
from cofem.learning.starts import EXPLAINED, STARTS
from cofem.learning.stopping import Verdict
from cofem.many.layout import Outcome
from cofem.many.marginals import MIXTURE
from cofem.many.side_by_side.learning import AT_REST, NEARLY, Ends, SideBySide
from cofem.many.side_by_side.systems import Systems
from cofem.model.methods import CoFEM
from cofem.operators import LinearOperator


def learned_together(
    phi: LinearOperator, Y: Array, noise: Any, options: CoFEM, seed: int, max_iter: int, tol: float
) -> list[Outcome | None]:
    """Fit the learned prior to every row of Y (P, N); None where the end is not believed.

    Parameters
    ----------
    phi : LinearOperator (N, D)
    Y : array (P, N)
        No row of zeros.
    noise : array (P,), float or None
        The noise precisions, where they are given.
    options, seed, max_iter, tol
        As for :func:`cofem.fit`.
    """
    xp = backend.namespace(Y)
    energy = total_squares(Y[None, ...])
    given = noise is not None
    unit = int(Y.shape[1]) / energy
    if given:
        unit = backend.from_numpy(np.ones(Y.shape[0]) * noise, unit)
    systems = Systems(phi, Y * backend.column(xp.sqrt(unit), Y), options, seed)
    ends, iterations = SideBySide(systems, given, tol).run(max_iter)
    rule = Propagation(systems.model, STARTS[0], given, tol)
    believed = np.ones(Y.shape[0], dtype=bool)
    if tol > 0:
        rule.look, rule.iteration = ends.look, iterations
        rule.noises[0].ratio = ends.ratio
        believed = _believed(rule, systems, ends)
    # If it is given, also where the iterations ended on the way to it.
    rule.noises[0].ratio = xp.ones_like(ends.ratio) if given else ends.ratio
    rule.prior = replace(rule.prior, weights=ends.weights)
    rule.precisions, rule.pulls = [ends.a], [ends.b[None, ...]]
    rule.see([systems.moments(ends.a, ends.mean, iterations + 1, False, rule.pulls[0])])
    return _outcomes(rule, ends.how, unit, believed, max_iter if tol == 0 else 0)


def _believed(rule: Propagation, systems: Systems, s: Ends) -> np.ndarray:
    """Return whose ends are certified, not crowded and explain y, boolean (P,).

    The rule has the noise of the ends, and looks as they stood.
    """
    fine = s.used == s.used
    for _, refused in sure.grounds(rule, s.slabs, s.field):
        fine = fine & ~refused
    crowded, _ = sure.is_crowded(rule, systems)
    if crowded is not False:  # the limit is known
        fine = fine & ~crowded
    if not rule.given:
        fine = fine & (s.ratio * rule.noises[0].energy / rule.n_data > EXPLAINED)
    lowest, _ = systems.lowest_ratios(s.a, s.field, s.probability)
    return backend.to_numpy(fine) & (lowest >= sure.LOWEST_RATIO)


def _outcomes(
    rule: Propagation, how: Array, unit: Array, believed: np.ndarray, asked: int
) -> list[Outcome | None]:
    """Return what is kept, in the units of the caller's data; ``asked`` iterations, or 0."""
    assert rule.shares is not None
    seen, prior, ratio = rule.seen[0], rule.prior, rule.noises[0].ratio
    xp = backend.namespace(ratio)
    root, whole, over = (backend.column(x, seen.unit) for x in (xp.sqrt(unit), unit, ratio * unit))
    mean, variance = (x[0, ...] for x in rule.moments_of(0))
    weights = xp.where(prior.in_use(rule.visible), prior.weights, 0 * prior.weights)
    arrays = {
        "mean": mean / root, "variance": variance / whole,
        "precision": over * rule.precisions[0], "probability": 1 - rule.shares.spike,
        "seen_value": seen.value[0, ...] / root, "seen_precision": over * seen.precision,
        "seen_unit": over * seen.unit, "prior_scales": prior.scales * ratio[:, None],
        "prior_weights": weights / xp.sum(weights, axis=1)[:, None],
        "noise_precision": ratio * unit, "how": how,
    }  # fmt: skip
    rows = {name: backend.to_numpy(x) for name, x in arrays.items()}
    return [_outcome({k: v[i] for k, v in rows.items()}, asked) if good else None
            for i, good in enumerate(believed)]  # fmt: skip


def _outcome(row: dict[str, np.ndarray], asked: int) -> Outcome:
    verdicts = {AT_REST: Verdict.AT_REST, NEARLY: Verdict.NEARLY_AT_REST}
    verdict = verdicts.get(int(row["how"]), Verdict.AS_ASKED if asked else Verdict.CERTIFIED)
    used = row["prior_weights"] > 0
    kept = {name: row[name] for name in ("probability", "seen_value", "seen_precision",
                                         "seen_unit")}  # fmt: skip
    return Outcome(
        mean=row["mean"], variance=row["variance"], precision=row["precision"],
        noise_precision=float(row["noise_precision"]), converged=verdict.converged,
        message=verdict.value.format(few=FEW_APART, max_iter=asked),
        kept={**kept, "prior": MIXTURE, "prior_scales": row["prior_scales"][used],
              "prior_weights": row["prior_weights"][used]},
    )  # fmt: skip
