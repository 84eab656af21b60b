"""Directions of the data in which there is neither signal nor noise: they are left out.

Missing values filled in with zeros, rows that were copied, data that were projected (an average
reference, signal-space projection): then y is exactly zero in directions in which Φ is zero too.
White noise is never exactly zero. Where such directions count as data, the likelihood grows without
limit as the noise goes to zero, and if z can fit the other data this is what is learned. The rows
are rotated, as they are for an intercept, and those without anything in them dropped: Φᴴ Φ and
Φᴴ y stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.learned import Learned
from cofem.model.methods import Method
from cofem.model.model import Model, Task
from cofem.operators import Dense, LinearOperator, Restriction

# The rank is found by the eigenvalues of a matrix of at most this many rows, and only if no more
# multiplications make that matrix: about a second.
MOST_ROWS, MOST_WORK = 1500, 5e9
# Of a direction without a signal: the eigenvalue of ΦΦᴴ beside the largest one, and the length of y
# beside all of it, in double and in single precision (some hundred roundings; noise of 160 and 100
# dB below the data).
NO_SIGNAL, NO_DATA = (1e-13, 1e-11), (1e-8, 1e-5)
# As many columns of zeros are named.
NAMED = 5


def audible(model: Model, method: Method) -> tuple[Model, int]:
    """Return the model without silent directions, and how many there were in all tasks."""
    if method.name == "banded":  # chosen rows of a band are no band
        return model, 0
    tasks, gone = list(model.tasks), 0
    kinds: dict[int, list[int]] = {}
    for i, task in enumerate(tasks):
        kinds.setdefault(id(task.operator), []).append(i)
    for members in kinds.values():
        phi, rows = tasks[members[0]].operator, [tasks[i].y for i in members]
        left, data = _without_zero_rows(phi, rows)
        if isinstance(left, Dense) or method.name in ("em", "woodbury"):
            left, data = _of_full_rank(left, data, model.like)
        if left is not phi:
            gone += (phi.shape[0] - left.shape[0]) * len(members)
            for i, y in zip(members, data, strict=True):
                tasks[i] = replace(tasks[i], operator=left, y=y)
    return (replace(model, tasks=tuple(tasks)) if gone else model), gone


def with_all_rows(learned: Learned, tasks: Sequence[Task], gone: int) -> Learned:
    """Return the fit with the data as they were given, and a word on what was left out."""
    model = learned.model
    full = [
        task.with_noise(now.noise_precision) for task, now in zip(tasks, model.tasks, strict=True)
    ]
    learned.outcome.found.note += (
        f"; {gone} directions of the data were left out: both phi and y are zero in them"
    )
    return replace(learned, model=replace(model, tasks=tuple(full)))


def with_unseen_named(learned: Learned) -> Learned:
    """Return the fit with a word on coefficients whose columns are zero: all is the prior there.

    They count as any other coefficient, which is wrong where they are not: the mean of an image
    whose lowest frequency was not measured, for example.
    """
    model = learned.model
    if model.sparsifier is not None or any(t.operator.splits_rows for t in model.tasks):
        return learned
    xp, tasks = backend.namespace(model.like), {id(t.operator): t for t in model.tasks}.values()
    zero = xp.ones(model.n_unknowns, dtype=xp.bool, device=backend.device_of(model.like))
    for task in tasks:
        zero = zero & (task.operator.column_norms_squared(task.y) == 0)
    count = int(xp.sum(xp.astype(zero, xp.int64)))  # a number from the device, not D of them
    if 0 < count < model.n_unknowns:
        unseen = np.flatnonzero(backend.to_numpy(zero))[:NAMED]
        named = ", ".join(map(str, unseen)) + (", …" if count > NAMED else "")
        learned.outcome.found.note += (
            f"; phi is zero in {count} of {model.n_unknowns} columns ({named}): the data say "
            "nothing about these coefficients, whose mean and intervals are those of the prior"
        )
    return learned


def _without_zero_rows(
    phi: LinearOperator, data: list[Array]
) -> tuple[LinearOperator, list[Array]]:
    """Leave rows out in which y is zero and a random x gives zero as well."""
    xp = backend.namespace(data[0])
    silent = xp.all(xp.stack(data) == 0, axis=0)
    count = int(xp.sum(xp.astype(silent, xp.int64)))
    if count in (0, phi.shape[0]):
        return phi, data
    x = backend.Random(0).uniform((1, phi.shape[1]), data[0])
    image = phi.forward(x)[0, :]
    keep = backend.to_numpy(~silent | (image != 0))
    if keep.all() or not keep.any():
        return phi, data
    kept = Restriction(phi.shape[0], keep)
    return phi[keep], [kept.forward(y) for y in data]


def _of_full_rank(
    phi: LinearOperator, data: list[Array], like: Array
) -> tuple[LinearOperator, list[Array]]:
    """Rotate y into the range of Φ where that is smaller than it could be, and y lies in it."""
    n, d = phi.shape
    least = min(n, d)
    if not 2 <= least <= MOST_ROWS or least * n * d > MOST_WORK:
        return phi, data
    xp = backend.namespace(like)
    single = like.dtype in (xp.float32, xp.complex64)
    given = phi.to_dense(like)
    matrix = xp.astype(given, xp.complex128 if backend.is_complex(given) else xp.float64)
    adjoint = xp.matrix_transpose(backend.conj(matrix))
    values, vectors = xp.linalg.eigh(matrix @ adjoint if n <= d else adjoint @ matrix)
    floor = NO_SIGNAL[single] * float(values[-1])
    rank = int(xp.sum(xp.astype(values > floor, xp.int64)))
    if rank in (0, least):
        return phi, data
    axes = vectors[:, -rank:]
    if n > d:
        axes = matrix @ (axes / xp.astype(xp.sqrt(values[-rank:]), axes.dtype))
    kept = xp.matrix_transpose(backend.conj(axes)) @ matrix
    kind = xp.complex128 if backend.is_complex(like) else xp.float64
    rows, axes = xp.astype(xp.stack(data), kind), xp.astype(axes, kind)
    turned = rows @ backend.conj(axes)
    rest = backend.abs_squared(rows - turned @ xp.matrix_transpose(axes))
    powers = xp.sum(backend.abs_squared(rows), axis=1)
    if bool(xp.any(xp.sum(rest, axis=1) > NO_DATA[single] ** 2 * powers)):
        return phi, data
    turned = xp.astype(turned, like.dtype)
    return Dense(xp.astype(kept, given.dtype)), [turned[i, :] for i in range(len(data))]
