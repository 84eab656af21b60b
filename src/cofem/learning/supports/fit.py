"""The posterior by sampling, for fits whose end was not certified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.certificate import Certificate
from cofem.learning.learned import Learned, Settings
from cofem.learning.loop import LoopResult, Outcome
from cofem.learning.moments.gaussian import Report
from cofem.learning.recording import IterationState
from cofem.learning.starts import End
from cofem.learning.stopping import Verdict
from cofem.learning.supports.sampler import (
    AGREE,
    LARGEST_COST,
    columns_alike,
    sample_supports,
    sampling_cost,
)
from cofem.model.model import Model

# The variance of a coordinate that was never non-zero, relative to the largest one.
LEAST_VARIANCE = 1e-12
# The second chain starts with the coordinates whose probability of being non-zero is above this.
LIKELY = 0.5


def reason_to_sample(model: Model, ends: Sequence[End], believed: bool) -> str:
    """Say why the posterior is to be sampled; nothing, if it is not, or if that takes too long.

    For models of which :func:`~cofem.model.choosing.can_sample` holds.
    Also a certified end may be at one of several modes where columns are nearly alike: two
    neighbours of opposite signs look like their neighbours with smaller values.
    """
    if any(e.found.verdict is Verdict.STOPPED for e in ends):
        return ""
    end = _trusted_most(ends)
    if not believed:
        return end.certificate.value
    likely = _likely(end)
    costly = sampling_cost(model.tasks[0].operator.shape[1], len(likely)) > LARGEST_COST
    alike = not costly and columns_alike(model, likely)
    return "some columns of phi are nearly alike" if alike else ""


def _trusted_most(ends: Sequence[End]) -> End:
    certified = [e for e in ends if e.certificate is Certificate.GIVEN]
    return next((e for e in (*certified, *ends) if e.credible_noise), ends[0])


def _likely(end: End) -> np.ndarray:
    """Return the coordinates that an end calls more probably non-zero than not."""
    if end.rule.shares is None:
        return np.empty(0, np.int64)
    return np.flatnonzero(backend.to_numpy(end.rule.shares.spike) < 1 - LIKELY)


def sampled(
    model: Model, ends: Sequence[End], given: bool, settings: Settings, why: str
) -> Learned | None:
    """Return the posterior under the learned prior by chains, begun where the ends are.

    None, if there are so many non-zeros that it would take too long.
    """
    end = _trusted_most(ends)
    history = {name: list(column) for name, column in end.found.history.items()}
    products = max(int(e.found.history["products"][-1]) for e in ends)
    history["products"][-1] = products
    likely = _likely(end)
    beta = model.tasks[0].noise_precision if given else 0.0
    found = sample_supports(
        model, beta, beta or end.rule.noise_precisions[0], likely, settings.seed,
        _teller(model, history, settings),
    )  # fmt: skip
    if found is None:
        return None
    draws = found.draws.like(model.like)
    model = model.with_noise([beta or found.noise_precision])
    xp = backend.namespace(model.like)
    verdict = Verdict.SAMPLED if found.distance <= AGREE else Verdict.CHAINS_APART
    verdict = Verdict.BETTER_MODE if found.ahead else verdict
    verdict = Verdict.STOPPED if found.stopped else verdict
    facts = {"sweeps": found.sweeps, "distance": found.distance, "ahead": found.ahead}
    result = LoopResult(
        1 / (draws.variance + draws.mean**2 + _least(draws.variance)), [draws.mean], verdict,
        facts, history, note=f"; sampled, because {why}",
    )  # fmt: skip
    report = Report(draws.variance, xp.zeros_like(draws.variance), float("nan"), float("nan"))
    return Learned("mixture", model, Outcome(result, [report]), None, draws)


def _least(variance: Array) -> float:
    """Return a variance that is added where a coordinate was never non-zero."""
    xp = backend.namespace(variance)
    smallest = float(xp.finfo(variance.dtype).tiny)
    return max(LEAST_VARIANCE * float(xp.max(variance)), smallest)


def _teller(
    model: Model, history: dict[str, list[float]], settings: Settings
) -> Callable[[np.ndarray, int], bool] | None:
    """Return what is called between blocks of sweeps: the callback with its usual state."""
    if settings.callback is None:
        return None
    began, callback = time.perf_counter(), settings.callback

    def tell(mean: np.ndarray, sweeps: int) -> bool:
        like = backend.from_numpy(mean.astype(backend.to_numpy(model.like[:1]).dtype), model.like)
        state = IterationState(
            iteration=int(history["iteration"][-1]), max_iter=settings.max_iter,
            change=float("nan"), cg_steps=0, products=int(history["products"][-1]),
            seconds=history["seconds"][-1] + time.perf_counter() - began, mean=like,
            precision=backend.namespace(like).ones_like(like),
        )  # fmt: skip
        return callback(state) is True

    return tell
