"""A constant in y that Φz does not contain: the user is told, where the data ask for it.

Counts, intensities and most regressions have an offset. If it is forgotten (``intercept=False`` is
the default), columns with means of their own have to make it up: all of them are then a little
non-zero, and nothing else shows it. So where y has a mean and Φ is a table of numbers, the data are
fitted once more with a constant, and the two models are compared by their evidence. The second fit
is quick if it is right, and left out where it cannot matter.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import erfcinv

from cofem import backend
from cofem.backend.distributed import ALONE
from cofem.learning.ends.named import LIKELY, evidence_of_ard, evidence_of_set
from cofem.learning.learned import Learned, Settings
from cofem.learning.moments.registry import make_esteps
from cofem.learning.prior_choice import learn
from cofem.model.model import Model, Task
from cofem.operators import Dense, Sparse
from cofem.result.assembly import posterior_of
from cofem.result.posterior import Posterior

# How often a fit to data without a constant is looked at for its mean alone, and how often it then
# says that there is one: if the model without were true, the other would have more evidence by g
# with a probability of at most e^-g (Markov's inequality).
FALSE_ALARM = 1e-4
SIGNIFICANT, AHEAD = math.sqrt(2) * float(erfcinv(FALSE_ALARM)), -math.log(FALSE_ALARM)
# A column whose cosine with a constant is larger is one.
IS_CONSTANT = 0.99
# With a smaller max_iter the user wants an early end.
ENOUGH = 50
# The mean squared cosine of columns with a constant, times N, is about one for columns without
# means; from here on they have some.
MEANS = 10.0
# Of fewer data the mean says little.
FEWEST = 8


def may_lack_a_constant(model: Model, settings: Settings) -> bool:
    """Whether y or the columns have a mean, and Φ is a table of numbers without a constant column.

    Not asked of a fit that was ended early, nor of processes that share one.

    Parameters
    ----------
    model : Model
        Without an intercept.
    settings : Settings
    """
    early = settings.stopped or settings.tol == 0 or settings.max_iter < ENOUGH
    if early or settings.group is not ALONE:
        return False
    if model.sparsifier is not None or model.sees_nothing:
        return False
    if any(backend.is_complex(task.y) or task.operator.is_complex for task in model.tasks):
        return False
    if not all(isinstance(task.operator, (Dense, Sparse)) for task in model.tasks):
        return False
    largest, usual = _cosines(model.tasks[0])
    if largest > IS_CONSTANT**2:
        return False
    return usual > MEANS / model.tasks[0].operator.shape[0] or any(map(_has_mean, model.tasks))


def _root(task: Task) -> np.ndarray:
    """Return what a constant of one is in the rows of the task."""
    n = task.operator.shape[0]
    return np.ones(n) if task.weights is None else np.sqrt(task.weights)


def _has_mean(task: Task) -> bool:
    y, unit = np.asarray(backend.to_numpy(task.y), dtype=np.float64), _root(task)
    n = len(y)
    if n < FEWEST:
        return False
    along = float(unit @ y) / float(np.linalg.norm(unit))
    rest = math.sqrt(max(float(y @ y) - along**2, 0.0) / (n - 1))
    return abs(along) > SIGNIFICANT * rest


def _cosines(task: Task) -> tuple[float, float]:
    """Return the largest and the mean squared cosine of a column with a constant."""
    xp, root = backend.namespace(task.y), _root(task)
    unit = xp.astype(backend.from_numpy(root / np.linalg.norm(root), task.y), task.y.dtype)
    parts = backend.abs_squared(task.operator.adjoint(unit[None, :])[0, :])
    norms = task.operator.column_norms_squared(task.y)
    squared = xp.where(norms > 0, parts / xp.where(norms > 0, norms, 1.0), 0.0)
    return float(xp.max(squared)), float(xp.mean(squared))


def with_constant_asked(
    post: Posterior, learned: Learned, tasks: tuple[Task, ...], given: bool, settings: Settings
) -> Posterior:
    """Return the posterior; not converged, if the data ask for a constant.

    Parameters
    ----------
    post : Posterior
        Of the fit without one.
    learned : Learned
        The same; it gets the trouble too, and its history the products made here.
    tasks : tuple of Task
        The data again, with a constant in each.
    given : bool
        Whether the noise precision is known.
    settings : Settings
    """
    quick = replace(settings, may_sample=False, keeper=None)
    found = learned.outcome.found
    other = learn(replace(learned.model, tasks=tasks), "mixture", given, quick)
    found.history["products"][-1] += other.outcome.found.history["products"][-1]
    if settings.stopped or not other.outcome.found.verdict.converged:
        return post
    with_one = posterior_of(other, settings.method, post.mean.ndim == 2, {})
    value, its_value = _evidences(post, learned, with_one, other, settings)
    ahead = its_value + sum(map(_log_prior, tasks)) - value
    if not ahead > AHEAD:
        return post
    found.troubles.append(
        f"y has an offset that phi does not contain, and with it the log evidence is {ahead:.3g} "
        "higher: pass intercept=True, or add a column of ones"
    )
    return replace(post, converged=found.converged, message=found.message)


def _evidences(
    post: Posterior, learned: Learned, with_one: Posterior, other: Learned, settings: Settings
) -> tuple[float, float]:
    """Return the log evidence of both fits: as a rule theirs, else that of what they name."""
    if post.prior != "ard" and math.isfinite(post.log_evidence):
        return post.log_evidence, with_one.log_evidence
    return _of_named(post, learned, settings), _of_named(with_one, other, settings)


def _of_named(post: Posterior, learned: Learned, settings: Settings) -> float:
    model, method = learned.model, learned.method or settings.method
    esteps = make_esteps(model, method, settings.seed, settings.group)
    if post.prior == "ard":
        return evidence_of_ard(learned.outcome, model, esteps)[0]
    xp = backend.namespace(post.mean)
    probability, power = post.probability, post.mean**2 + post.variance
    assert probability is not None  # but for "ard"
    if post.mean.ndim == 2:
        probability, power = xp.max(probability, axis=0), xp.mean(power, axis=0)
    least = float(xp.finfo(power.dtype).tiny)
    precision = 1 / xp.clip(power, min=least)
    return evidence_of_set(model, esteps, probability > LIKELY, precision)[0]


def _log_prior(task: Task) -> float:
    """Return the log prior density of the constant found: a normal of the size of the data."""
    assert task.intercept is not None
    level = float(task.intercept.level)
    energy = float(np.sum(np.square(backend.to_numpy(task.y), dtype=np.float64)))
    power = level**2 + energy / task.intercept.weight
    return -0.5 * math.log(2 * math.pi * power) - 0.5 * level**2 / power
