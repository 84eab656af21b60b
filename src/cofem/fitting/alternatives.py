"""What was said of the data, where they contradict it: no constant, or a noise that is given.

A constant that is not in the model, or a noise ten times too small, spoils a fit: many coefficients
are then needed that are zero, all with narrow intervals, and nothing else shows it. So where one
of these may be wrong, the data are fitted once more without that statement, and the two models are
compared by their evidence. The second fit is quick if it is right; chains are not run for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend.distributed import ALONE
from cofem.fitting.constant import (
    SIGNIFICANT,
    log_prior_of_constant,
    may_lack_a_constant,
)
from cofem.fitting.outlying import FALSE_ALARM
from cofem.fitting.silent import audible
from cofem.learning.ends.named import evidence_of_ard, evidence_of_set
from cofem.learning.learned import Learned, Settings
from cofem.learning.moments.registry import make_esteps
from cofem.learning.noise import squared_rows
from cofem.learning.prior_choice import learn
from cofem.learning.starts import LIKELY, UNLIKE
from cofem.learning.stopping import Verdict
from cofem.model.model import Model, Task
from cofem.operators import Dense, Sparse
from cofem.result.assembly import posterior_of
from cofem.result.posterior import Posterior

# If the model of the user were the true one, the other would have more evidence by g with a
# probability of at most e^-g (Markov's inequality).
AHEAD = -math.log(FALSE_ALARM)
# With a smaller max_iter the user wants an early end: no chains are run, and no other model.
ENOUGH = 50
# Ends at which the iterations came to rest by themselves, with a sparse answer.
AT_REST = (Verdict.AT_REST, Verdict.NEARLY_AT_REST, Verdict.CERTIFIED)


def may_be_doubted(phi: Any) -> bool:
    """Whether the data are as a user has them: whoever makes a ``Dense`` has prepared them.

    The regressor does: its rows are combinations of samples, and it has its own intercept.
    """
    each = phi if isinstance(phi, (list, tuple)) else (phi,)
    return not any(isinstance(p, (Dense, Sparse)) for p in each)


def with_contradictions(
    post: Posterior, learned: Learned, with_constant: Callable[[], tuple[tuple[Task, ...], bool]],
    given: bool, settings: Settings,
) -> Posterior:  # fmt: skip
    """Return the posterior; not converged, if the data contradict what was said of them.

    Parameters
    ----------
    post : Posterior
        Under the learned prior, or what took its place.
    learned : Learned
        The same; it gets the trouble too, and its history the products made here.
    with_constant : function
        Reads the data again, with a constant in each task (``validation.tasks_from``).
    given : bool
        Whether the noise precision is the user's.
    settings : Settings
    """
    early = settings.stopped or settings.tol == 0 or settings.max_iter < ENOUGH
    if early or settings.group is not ALONE:
        return post
    model, found = learned.model, learned.outcome.found
    why = ""
    if model.tasks[0].intercept is None and may_lack_a_constant(model):
        why = _lacks_a_constant(post, learned, with_constant()[0], given, settings)
    if given and not why and _may_be_wrong(learned):
        why = _wrong_noise(post, learned, settings)
    if not why:
        return post
    found.troubles.insert(0, why)
    return replace(post, converged=found.converged, message=found.message)


def _lacks_a_constant(
    post: Posterior, learned: Learned, tasks: tuple[Task, ...], given: bool, settings: Settings
) -> str:
    """Say that the data ask for a constant; nothing, if they do not."""
    with_one = replace(learned.model, tasks=tasks)
    ahead, _ = _ahead(post, learned, with_one, given, settings)
    ahead += sum(map(log_prior_of_constant, tasks))
    if not ahead > AHEAD:
        return ""
    return (
        f"y has an offset that phi does not contain, and with it the log evidence is {ahead:.3g} "
        "higher: pass intercept=True, or add a column of ones"
    )


def _may_be_wrong(learned: Learned) -> bool:
    """Whether the residual is not of the size of the noise, or the fit did not come to rest.

    Joint tasks are not looked at. A power within a factor UNLIKE of the noise's costs little.
    """
    found, tasks = learned.outcome.found, learned.model.tasks
    if len(tasks) > 1:
        return False
    if found.verdict not in AT_REST:
        return True
    task = tasks[0]
    left = task.y - task.operator.forward(found.means[0][None, :])[0, :]
    free = task.operator.shape[0] - float(found.moments[0].freedom)
    ratio = task.noise_precision * float(squared_rows(left)) / max(free, 1.0)
    far = abs(ratio - 1) > SIGNIFICANT * math.sqrt(2 / max(free, 1.0))
    return far and not 1 / UNLIKE < ratio < UNLIKE


def _wrong_noise(post: Posterior, learned: Learned, settings: Settings) -> str:
    """Say that the noise given may be wrong; nothing, if that does not matter.

    Where the fit is not certified, what it names has less evidence than all sets together. So near
    the limit of what can be recovered a noise that is right may be doubted too.
    """
    if audible(learned.model, settings.method)[1]:
        return ""  # silent directions have no noise; with the noise given they do no harm
    ahead, other = _ahead(post, learned, learned.model, False, settings)
    if not ahead > AHEAD or other is None:
        return ""
    said, found = (float(np.ravel(p.noise_precision)[0]) ** -0.5 for p in (post, other))
    if 1 / UNLIKE < (found / said) ** 2 < UNLIKE:
        return ""  # another end, not another noise
    apart = np.abs(backend.to_numpy(other.mean) - backend.to_numpy(post.mean))
    if not np.any(apart > SIGNIFICANT * backend.to_numpy(post.std)):
        return ""
    return (
        f"the noise given, of standard deviation {said:.3g}, may be wrong: learned, it is "
        f"{found:.3g}, with a log evidence that is {ahead:.3g} higher; check it, or leave it out"
    )


def _ahead(
    post: Posterior, learned: Learned, model: Model, given: bool, settings: Settings
) -> tuple[float, Posterior | None]:
    """Return how much more log evidence another model has, and its fit; -inf without a fit."""
    quick = replace(settings, may_sample=False, keeper=None)
    other = learn(model, "mixture", given, quick)
    history = learned.outcome.found.history
    history["products"][-1] += other.outcome.found.history["products"][-1]
    if settings.stopped or not other.outcome.found.verdict.converged:
        return -math.inf, None
    fit = posterior_of(other, settings.method, post.mean.ndim == 2, {})
    if post.prior != "ard" and math.isfinite(post.log_evidence):
        return fit.log_evidence - post.log_evidence, fit
    return _of_named(fit, other, settings) - _of_named(post, learned, settings), fit


def _of_named(post: Posterior, learned: Learned, settings: Settings) -> float:
    """Return the log evidence of what a fit names, where the fit itself has none."""
    model, method = learned.model, learned.method or settings.method
    esteps = make_esteps(model, method, settings.seed, settings.group)
    if post.prior == "ard":
        return evidence_of_ard(learned.outcome, model, esteps)[0]
    xp = backend.namespace(post.mean)
    probability, power = post.probability, backend.abs_squared(post.mean) + post.variance
    assert probability is not None  # but for "ard"
    if post.mean.ndim == 2:
        probability, power = xp.max(probability, axis=0), xp.mean(power, axis=0)
    precision = 1 / xp.clip(power, min=float(xp.finfo(power.dtype).tiny))
    return evidence_of_set(model, esteps, probability > LIKELY, precision)[0]
