"""What takes a posterior and its operator: draws, linear maps of z, and modes.

Everything here is done task by task and put together in the shape of z: a posterior of
joint tasks has an axis of tasks, also where there is only one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cofem import backend
from cofem.arguments import whole_number
from cofem.backend import Array
from cofem.learning.sites.marginals import Marginals
from cofem.learning.supports.draws import Draws
from cofem.model.model import Task
from cofem.operators import Dense, LinearOperator, as_operator, check_adjoint
from cofem.result.cut_draws import settled
from cofem.result.filtered_mode import filtered_mode
from cofem.result.sampling import DRAWS, deviations, variance_of_map

if TYPE_CHECKING:
    from cofem.result.posterior import Posterior


def tasks_of(post: Posterior, call: str) -> tuple[Task, ...]:
    """Return the tasks; if the posterior has none, the error says how to get them."""
    if not post.tasks:
        raise ValueError(
            f"{call} needs the operator, which a file does not hold: "
            "load it with cofem.load(path, phi=phi)"
        )
    return post.tasks


def gaussian_tasks(post: Posterior, call: str) -> tuple[Task, ...]:
    """Return the tasks; refuse the paper's rectified posterior, with an alternative.

    Any other posterior of z ≥ 0 has draws, or Gaussian sites under which coordinates vary together.
    """
    if post.nonnegative and post.marginals is None:
        raise ValueError(
            f"{call} needs to know how coordinates vary together; this posterior is rectified, "
            "every coordinate by itself. If they may count as independent, use "
            "draws: mapped = linear_map.forward(post.sample(1000)) (or draws @ matrix.T), and "
            "then mapped.mean(axis=0) and mapped.std(axis=0)"
        )
    return tasks_of(post, call)


def draw(post: Posterior, n: Any, seed: Any) -> Array:
    """Return n draws, (n, *shape of z)."""
    n, seed = _checked_count(n), _checked_seed(seed)
    if isinstance(post.marginals, Draws):
        return post.marginals.sample(n, seed)
    mean = post.gaussian_mean
    draws = [
        deviations(
            task,
            _precision(post, i),
            n,
            seed=seed,
            stream=i,
            like=mean,
            sparsifier=post.sparsifier,
        )
        for i, task in enumerate(tasks_of(post, "sample"))
    ]
    moved = draws[0] if mean.ndim == 1 else backend.namespace(mean).stack(draws, axis=1)
    if post.marginals is not None and post.prior == "ard":
        return _cut_draws(post, moved, seed)
    if post.marginals is not None:
        std = backend.namespace(mean).sqrt(post.gaussian_variance)
        return post.marginals.draw(moved / std, seed)
    drawn = mean + moved
    return backend.namespace(mean).clip(drawn, min=0.0) if post.nonnegative else drawn


def _cut_draws(post: Posterior, moved: Array, seed: int) -> Array:
    """Return draws of z ≥ 0 at known precisions, from deviations under the sites."""
    assert isinstance(post.marginals, Marginals)
    xp = backend.namespace(moved)
    std = 1 / xp.sqrt(post.site_precision + post.marginals.precision)
    drawn = post.marginals.draw(moved / std, seed)
    if moved.ndim == 2:
        return settled(drawn, post.tasks[0], post.precision, seed)
    rows = [
        settled(drawn[:, i, :], task, post.precision, seed + i) for i, task in enumerate(post.tasks)
    ]
    return xp.stack(rows, axis=1)


def filtered_modes(post: Posterior, q: float) -> Array:
    """Return the paper's estimate for z ≥ 0, in the shape of z."""
    if not post.nonnegative:
        raise ValueError("filtered_mode needs a fit with nonnegative=True")
    if post.prior != "ard":
        raise ValueError('filtered_mode is made for prior="ard", and this is prior="mixture"')
    joint = post.gaussian_mean.ndim == 2
    rows = [
        filtered_mode(
            task.operator,
            task.y,
            precision=post.precision,
            noise_precision=task.noise_precision,
            mean=post.gaussian_mean[i, :] if joint else post.gaussian_mean,
            variance=post.gaussian_variance[i, :] if joint else post.gaussian_variance,
            q=q,
        )
        for i, task in enumerate(tasks_of(post, "filtered_mode"))
    ]
    return _shaped(post, rows)


def checked_map(post: Posterior, given: Any, name: str, call: str) -> LinearOperator:
    """Return a map of z as an operator; check its number of columns and its adjoint."""
    unknowns = gaussian_tasks(post, call)[0].operator.shape[1]
    op = as_operator(given, name)
    if op.shape[1] != unknowns:
        raise ValueError(f"{name} must have {unknowns} columns, got shape {op.shape}")
    if not op.trusted:
        check_adjoint(op, post.gaussian_mean, name=name)
    return op


def map_variance(post: Posterior, op: LinearOperator, n_samples: int, seed: int) -> Array:
    """Return the variance of every entry of ``op`` z, (M,) or (L, M)."""
    n_samples = whole_number("n_samples", n_samples, least=1)
    return _shaped(post, _variances(post, [op] * len(post.tasks), n_samples, seed))


def prediction(post: Posterior, op: LinearOperator, noise: bool) -> tuple[Array, Array]:
    """Return mean and variance of new data behind ``op``, (M,) or (L, M).

    Given z, the constant is level − row z plus an independent error. So the variance of new data is
    that of (op − row) z plus the variance of that error.
    """
    mean, variances = op.forward(post.mean), _variances(post, _shifted(post, op), DRAWS, 0)
    for i, task in enumerate(post.tasks):
        share = 0.0 if task.intercept is None else 1 / task.intercept.weight
        variances[i] = variances[i] + (share + noise) / task.noise_precision
    if post.intercept is not None:
        shift = np.asarray(post.intercept)[..., None].tolist()
        xp = backend.namespace(mean)
        is_complex = backend.is_complex(mean) or np.iscomplexobj(post.intercept)
        dtype = backend.complex_dtype(mean.dtype, xp) if is_complex else mean.dtype
        mean = xp.astype(mean, dtype, copy=False) + xp.asarray(
            shift, dtype=dtype, device=backend.device_of(mean)
        )
    return mean, _shaped(post, variances)


def intercepts(post: Posterior) -> tuple[Any, Any]:
    """Return mean and standard deviation of the constant, float or (L,)."""
    joint = post.gaussian_mean.ndim == 2
    rows, values = [], []
    for i, task in enumerate(post.tasks):
        assert task.intercept is not None
        row, mean = task.intercept.row, post.mean[i, :] if joint else post.mean
        xp = backend.namespace(row)
        product = row * mean
        wide = backend.complex_dtype if backend.is_complex(product) else backend.real_dtype
        there = xp.sum(xp.astype(product, wide(xp.float64, xp), copy=False))
        value = task.intercept.level - complex(there)
        values.append(value if backend.is_complex(product) else value.real)
        rows.append(Dense(row[None, :]))
    spread = [
        float(v[0]) + 1 / (t.noise_precision * t.intercept.weight)  # type: ignore[union-attr]
        for v, t in zip(_variances(post, rows, DRAWS, 0), post.tasks, strict=True)
    ]
    if not joint:
        return values[0], float(np.sqrt(spread[0]))
    return np.asarray(values), np.sqrt(np.asarray(spread))


def _shifted(post: Posterior, op: LinearOperator) -> list[LinearOperator]:
    """Return ``op`` − row for every task with a constant; tasks with the same operator share it."""
    made: dict[int, LinearOperator] = {}
    out = []
    for task in post.tasks:
        if task.intercept is None:
            out.append(op)
            continue
        if id(task.operator) not in made:
            row = task.intercept.row
            xp = backend.namespace(row)
            ones = xp.ones((op.shape[0], 1), dtype=row.dtype, device=backend.device_of(row))
            made[id(task.operator)] = op - Dense(ones) @ Dense(row[None, :])
        out.append(made[id(task.operator)])
    return out


def _precision(post: Posterior, i: int) -> Array:
    """Return the precisions of the prior, or of the sites that stand for it, of a task."""
    if post.site_precision is None:
        return post.precision
    sites: Array = post.site_precision
    return sites if sites.ndim == 1 else sites[i, :]


def _variances(
    post: Posterior, maps: Sequence[LinearOperator], n_samples: int, seed: int
) -> list[Array]:
    """Return the variances (M,) of a map of z for every task."""
    if isinstance(post.marginals, Draws):
        every = post.marginals.sample(post.marginals.kept.shape[0], seed)
        xp = backend.namespace(every)
        return [xp.var(op.forward(every), axis=0) for op in maps]
    # Tasks with the same operator and noise have the same covariance.
    found: dict[tuple[int, float], Array] = {}
    rows = []
    for i, (task, op) in enumerate(zip(post.tasks, maps, strict=True)):
        kind = (id(task.operator), task.noise_precision)
        if kind not in found:
            found[kind] = variance_of_map(
                task,
                _precision(post, i),
                op,
                like=post.gaussian_mean,
                n_samples=n_samples,
                seed=seed,
                sparsifier=post.sparsifier,
            )
        rows.append(found[kind])
    return rows


def _shaped(post: Posterior, rows: list[Array]) -> Array:
    """Give the rows of the tasks an axis if z has one."""
    mean = post.gaussian_mean
    return backend.namespace(mean).stack(rows) if mean.ndim == 2 else rows[0]


def _checked_count(n: Any) -> int:
    try:
        number = operator.index(n)
    except TypeError:
        raise TypeError(f"n must be a whole number, got {n!r}") from None
    if number < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return number


def _checked_seed(seed: Any) -> int:
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0 on, got {seed!r}")
    return int(seed)


def summary(post: Posterior) -> str:
    """Return the posterior in a line."""
    shape = "×".join(str(n) for n in post.gaussian_mean.shape)
    if backend.is_complex(post.gaussian_mean):
        active = "complex"
    else:
        active = f"{int(np.sum(backend.to_numpy(post.support())))} in the support"
    iterations = len(post.history["iteration"])
    state = "converged" if post.converged else "not converged"
    beta = np.atleast_1d(np.asarray(post.noise_precision))
    noise = f"{beta[0]:.4g}" if len(beta) == 1 else f"{len(beta)} values"
    if post.intercept is not None:
        noise += f", intercept={_shown(post.intercept)} ± {_shown(post.intercept_std)}"
    return (
        f"Posterior({shape} unknowns, {active}; {post.method}, prior {post.prior}, "
        f"{iterations} iterations, "
        f"{state}; noise_precision={noise}, log_evidence={post.log_evidence:.6g})"
    )


def _shown(value: Any) -> str:
    """Return the text of a number, or of the number of numbers."""
    return f"{value:.4g}" if np.ndim(value) == 0 else f"{len(value)} values"
