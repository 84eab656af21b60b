"""The table of methods with a loop of their own; all others run in the one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.learning.loop import Keeper, Outcome, run_em
from cofem.learning.moments.registry import make_esteps
from cofem.model.methods import Method
from cofem.model.model import Model
from cofem.rivals import amp, sequential, vi

# Methods with a loop of their own.
RUNNERS: dict[str, Callable[..., Outcome]] = {
    "amp": amp.run,
    "vi": vi.run,
    "sequential": sequential.run,
}


def run_method(
    model: Model,
    method: Method,
    alpha: Array,
    *,
    keeper: Keeper | None = None,
    group: Group | None = None,
    seed: int,
    **stop: Any,
) -> Outcome:
    """Run any method from the precisions ``alpha``; ``stop``: max_iter, tol and callback."""
    run = RUNNERS.get(method.name)
    if run is not None:
        return run(model, method, alpha, seed=seed, **stop)
    return run_em(model, make_esteps(model, method, seed, group), alpha, keeper=keeper, **stop)
