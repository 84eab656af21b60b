"""From what a method found, and what it was asked for, to the posterior that the user gets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.learned import Learned
from cofem.learning.moments.gaussian import Report
from cofem.model.methods import Method
from cofem.result.operations import intercepts
from cofem.result.posterior import Posterior

# The data are not settings, and these three change nothing about the answer.
NOT_SETTINGS = ("phi", "y", "callback", "progress", "checkpoint")


def posterior_of(
    learned: Learned, method: Method, joint: bool, settings: dict[str, Any]
) -> Posterior:
    """Return the posterior, in task order; ``joint`` says whether it has an axis of tasks."""
    model, method = learned.model, learned.method or method
    found, reports = learned.outcome.found, learned.outcome.reports
    xp = backend.namespace(found.alpha)
    _add_report(found.history, reports)
    found.troubles += [r.trouble for r in reports if r.trouble]

    def per_task(name: str) -> list[Array]:
        placed: list[Any] = [None] * len(model.tasks)
        for family, report in zip(model.families, reports, strict=True):
            for member in family.members:
                placed[member] = getattr(report, name)
        return placed

    def shaped(arrays: list[Array]) -> Array:
        return xp.stack(arrays) if joint else arrays[0]

    marginals = learned.marginals
    if marginals is not None and not joint:
        marginals = marginals.of_one_task()
    beta = np.array([t.noise_precision for t in model.tasks])
    post = Posterior(
        gaussian_mean=shaped(found.means),
        gaussian_variance=shaped(per_task("variance")),
        variance_error=shaped(per_task("variance_error")),
        precision=found.alpha,
        noise_precision=beta if joint else float(beta[0]),
        log_evidence=math.fsum(r.log_evidence for r in reports),
        log_evidence_error=math.sqrt(sum(r.log_evidence_error**2 for r in reports)),
        history=found.history,
        converged=found.converged,
        message=found.message,
        method=method.name,
        options=method,
        settings=settings,
        nonnegative=model.nonnegative,
        prior=learned.prior,
        marginals=marginals,
        pull=None if learned.sites is None else shaped([pull for _, pull in learned.sites]),
        site_precision=(
            None if learned.sites is None else shaped([own for own, _ in learned.sites])
        ),
        tasks=model.tasks,
        sparsifier=model.sparsifier,
    )
    if model.tasks[0].intercept is None:
        return post
    value, std = intercepts(post)
    return replace(post, intercept=value, intercept_std=std)


def _add_report(history: dict[str, list[float]], reports: Sequence[Report]) -> None:
    """Add the products and steps of the report to the last row of the history."""
    history["products"][-1] += sum(r.products for r in reports)
    history["cg_steps"][-1] += max(r.cg_steps for r in reports)
    history["log_evidence"][-1] = math.fsum(r.log_evidence for r in reports)


def asked_for(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among the arguments of ``fit`` or ``posterior``.

    Numbers, words and None stay as they are; an array is named by its shape, a method by its
    name (``post.options`` holds the rest of it), anything else by its type.

    Examples
    --------
    >>> import numpy as np
    >>> asked_for({"phi": np.eye(2), "tol": 1e-4, "groups": np.zeros(3), "noise_std": None})
    {'tol': 0.0001, 'groups': 'array of shape (3,)', 'noise_std': None}
    """
    return {name: _word(value) for name, value in arguments.items() if name not in NOT_SETTINGS}


def _word(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
        return value if isinstance(value, bool | int | float | str) else str(value)
    if isinstance(value, Method):
        return value.name
    kind = "array" if backend.is_array(value) else type(value).__name__
    shape = getattr(value, "shape", None)
    return f"{kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else kind
