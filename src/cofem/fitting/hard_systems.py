"""CoFEM where its linear systems are hard: exact moments take its place, if they are cheap.

Conjugate gradients need at most as many steps as there are data (and one more), if there are no
rounding errors. Systems that take more are badly conditioned, as a rule because columns are
coherent. Then few probes are misled, and five systems cost more products than to apply Φ to every
unit vector, which is what exact moments need. So a fit of a size at which "auto" would choose exact
moments begins anew with them as soon as that is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cofem.learning.learned import Learned, Settings
from cofem.learning.recording import IterationState, Listener
from cofem.model.choosing import careful
from cofem.model.methods import CoFEM
from cofem.model.model import Model


class _HardError(Exception):
    """The systems are hard; the number of products made so far. Nothing else of the run is used."""


def unless_hard(run: Callable[..., Learned], model: Model, settings: Settings) -> Learned:
    """Return what ``run`` does under these settings, or with exact moments if systems are hard."""
    other = careful(settings.method, model)
    if settings.tol == 0 or other is settings.method or other.name == CoFEM.name:
        return run(settings=settings)
    data = max(min(task.operator.shape) for task in model.tasks)

    def watch(state: IterationState) -> bool:
        stopped = settings.callback is not None and bool(settings.callback(state))
        if state.cg_steps > data and not stopped:
            raise _HardError(state.products)
        return stopped

    try:
        return run(settings=replace(settings, callback=Listener(watch)))
    except _HardError as hard:
        spent = int(hard.args[0])
    learned = run(settings=replace(settings, method=other, keeper=None))
    found = learned.outcome.found
    found.history["products"] = [p + spent for p in found.history["products"]]
    found.note += "; with exact moments, because the linear systems are hard"
    return replace(learned, method=other)
