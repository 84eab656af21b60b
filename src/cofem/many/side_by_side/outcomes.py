"""From the data of P problems to what is kept of each: which ends are believed, and in what units.

An end is believed as :mod:`cofem.learning.certificate` and ``starts`` believe that of one problem:
certified, not crowded, and most of y explained. What is not believed is left to be fitted alone,
with the other starts and everything else that one fit has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning import certificate as sure
from cofem.learning.sites.matching import UNSEEN
from cofem.learning.sites.mixture import most_per_datum
from cofem.learning.sites.propagation import FEW_APART
from cofem.learning.starts import EXPLAINED
from cofem.learning.stopping import Verdict
from cofem.many.layout import Outcome
from cofem.many.marginals import MIXTURE
from cofem.many.side_by_side.learning import AT_REST, NEARLY, Learning, State
from cofem.many.side_by_side.systems import Systems, column
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
    energy = xp.sum(xp.astype(backend.abs_squared(Y), xp.float64), axis=1)
    given = noise is not None
    unit = int(Y.shape[1]) / energy
    if given:
        unit = backend.from_numpy(np.ones(len(Y)) * noise, unit)
    systems = Systems(phi, Y * column(xp.sqrt(unit), Y), options, seed)
    learning = Learning(systems, given, tol)
    state = learning.run(max_iter)
    learning.systems = systems
    iteration = learning.iteration + 1
    believed = np.ones(len(Y), dtype=bool)
    if tol > 0:
        believed = _believed(systems, state, given, iteration)
    if given:  # also where the iterations ended on the way to it
        state.ratio = xp.ones_like(state.ratio)
    found = systems.moments(state.a, state.b, state.mean, iteration)
    state.mean, state.field = found.mean, xp.clip(found.field, min=UNSEEN)
    state.told = learning.told(state, state.ratio * state.field)
    return _outcomes(state, systems, unit, believed, max_iter if tol == 0 else 0)


def _believed(systems: Systems, s: State, given: bool, iteration: int) -> np.ndarray:
    """Return whose ends are certified, not crowded and explain y, boolean (P,)."""
    assert s.told is not None
    xp = backend.namespace(s.a)
    n_data, n = int(systems.Y.shape[1]), systems.n
    most = s.priors.first.most
    slabs = xp.sum(s.told.weights[:, 1:], axis=1)
    crowd = (slabs * (n / n_data) > sure.DENSE) & (s.field < sure.BARELY_SEEN)
    if most < 1:
        crowd = crowd | (slabs > sure.AT_LIMIT * most)
    fine = (
        (s.used <= sure.LARGEST_USED)
        & (xp.abs(s.log_move) <= sure.LARGEST_MOVE)
        & (s.distance <= sure.LARGEST_DISTANCE)
        & (s.apart <= sure.LARGEST_APART)
        & (s.departs <= sure.LARGEST_DEPARTURE)
        & ~crowd
    )
    lowest, _ = systems.lowest_ratios(s.a, s.field, 1 - s.told.spike)
    fine = fine & (lowest >= sure.LOWEST_RATIO)
    if n_data < n and not backend.is_complex(systems.Y):
        # What a ridge determines that explains the power of y beyond the noise.
        power = s.energy * s.ratio - n_data
        power = xp.clip(power, min=math.sqrt(2.0 * n_data))
        ridge = column(n / power, s.a) * systems.norms
        directions = xp.clip(systems.moments(ridge, None, None, iteration).freedom, min=1.0)
        line: Array = most_per_datum(directions / n)  # type: ignore[arg-type,assignment]
        fine = fine & (s.used * n_data <= line * directions)
    if not given:
        fine = fine & (s.ratio * s.energy / n_data > EXPLAINED)
    return backend.to_numpy(fine)


def _outcomes(
    s: State, systems: Systems, unit: Array, believed: np.ndarray, asked: int
) -> list[Outcome | None]:
    """Return what is kept, in the units of the caller's data; ``asked`` iterations, or 0."""
    assert s.told is not None
    xp = backend.namespace(s.a)
    beta = s.ratio * unit
    root, whole = column(xp.sqrt(unit), s.a), column(unit, s.a)
    theta = column(beta, s.a) * systems.norms
    visible = s.ratio * s.field
    weights = xp.where(s.priors.in_use(visible), s.priors.weights, 0 * s.priors.weights)
    arrays = {
        "mean": s.told.mean / root, "variance": s.told.variance / whole,
        "precision": column(beta, s.a) * s.a, "probability": 1 - s.told.spike,
        "seen_value": s.value / root, "seen_precision": column(s.field, s.a) * theta,
        "seen_unit": theta, "prior_scales": s.priors.scales * s.ratio[:, None],
        "prior_weights": weights / xp.sum(weights, axis=1)[:, None],
        "noise_precision": beta, "how": s.how,
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
