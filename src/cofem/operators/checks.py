"""The dot test: whether the adjoint matches the forward product."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators._user_code import SINGLE, asked
from cofem.operators.base import LinearOperator

# Allowed differences in the dot test. A wrong adjoint is off by per cents, rounding in sums of a
# million terms by 1e-10, and in single precision by 1e-5.
RTOL, RTOL_SINGLE = 1e-6, 5e-5
# Never divides by zero, and is nothing beside any product.
TINY = 1e-300


def check_adjoint(
    op: LinearOperator,
    like: Array | None = None,
    seed: int = 0,
    rtol: float | None = None,
    name: str = "phi",
) -> None:
    """Raise if ⟨Φx, y⟩ and ⟨x, Φᴴy⟩ differ (the dot test).

    Tested with a random x and two vectors y. A random y tests every entry; for y = Φx the inner
    product is as large as possible, so that a wrong factor is found at any size.

    Parameters
    ----------
    op : LinearOperator of shape (N, D)
    like : array, optional
        The test runs in its library, device and precision; NumPy, float64 by default.
    seed : int
        Seed of the random vectors.
    rtol : float, optional
        Allowed difference relative to ‖Φx‖‖y‖ + ‖x‖‖Φᴴy‖; 1e-6 in double and
        5e-5 in single precision by default.
    name : str
        What the error calls the operator.

    Raises
    ------
    ValueError
        If the two differ, or if a product changes its argument.

    Examples
    --------
    >>> from cofem.operators import from_functions
    >>> wrong = from_functions(lambda z: 2 * z, lambda y: y, shape=(2, 2), dtype=float)
    >>> check_adjoint(wrong)
    Traceback (most recent call last):
    ...
    ValueError: phi: adjoint does not match forward: ⟨Φx, y⟩ = ...
    """
    like = np.empty(0) if like is None else like
    xp = backend.namespace(like)
    convert = backend.complex_dtype if op.is_complex else backend.real_dtype
    home = xp.empty((0,), dtype=convert(like.dtype, xp), device=backend.device_of(like))
    if rtol is None:
        single = op.single_precision or float(xp.finfo(home.dtype).eps) > SINGLE
        rtol = RTOL_SINGLE if single else RTOL
    products = _named_products(op, name)
    random = backend.Random(seed)
    x = random.normal((op.shape[1],), home)
    forward = _unchanged(products[0], x, f"{name}: forward")
    for y in (random.normal((op.shape[0],), home), forward):
        adjoint = _unchanged(products[1], y, f"{name}: adjoint")
        left, right = _inner(forward, y), _inner(x, adjoint)
        scale = _length(forward) * _length(y) + _length(x) * _length(adjoint)
        # "not ≤" rather than ">": NaN must not pass.
        if not abs(left - right) <= rtol * scale:
            relative = abs(left - right) / max(abs(left), abs(right))
            raise ValueError(
                f"{name}: adjoint does not match forward: ⟨Φx, y⟩ = {_text(left)}, "
                f"⟨x, Φᴴy⟩ = {_text(right)} (relative difference {relative:.2g})"
            )
    if not op.trusted:
        _check_batches(op, random, home, rtol, name)


def _named_products(op: LinearOperator, name: str) -> list[Callable[[Array], Array]]:
    """Return forward and adjoint; their own errors name the argument."""
    if hasattr(op, "name"):  # they do already
        return [op.forward, op.adjoint]
    return [partial(asked, product, name=name) for product in (op.forward, op.adjoint)]


def _check_batches(
    op: LinearOperator, random: backend.Random, home: Array, rtol: float, name: str
) -> None:
    """Raise if a batch of rows is not treated row by row: columns taken for rows, mostly."""
    rows = 2 if 3 in op.shape else 3  # a square batch would hide a transposition
    forward, adjoint = _named_products(op, name)
    for product, length, call in (
        (forward, op.shape[1], "forward"),
        (adjoint, op.shape[0], "adjoint"),
    ):
        batch = random.normal((rows, length), home)
        hint = (
            f"{name}: {call} does not treat a batch of shape ({rows}, {length}) row by row; "
            "functions are given rows, so write z @ A.T rather than A @ z, or pass batched=False"
        )
        single = [product(batch[i, :]) for i in range(rows)]
        try:
            together = (op.forward if call == "forward" else op.adjoint)(batch)
        except ValueError as error:
            raise ValueError(f"{hint} ({error})") from None
        for i, expected in enumerate(single):
            if not _length(together[i, :] - expected) <= rtol * max(_length(expected), TINY):
                raise ValueError(hint)


def _unchanged(product: Callable[[Array], Array], x: Array, call: str) -> Array:
    xp = backend.namespace(x)
    before = xp.asarray(x, copy=True)
    out = product(x)
    if not bool(xp.all(x == before)):
        raise ValueError(f"{call} changes its argument in place; it must work on a copy")
    return out


def _inner(a: Array, b: Array) -> complex:
    return complex(backend.namespace(a).sum(backend.conj(a) * b))


def _length(x: Array) -> float:
    return math.sqrt(float(backend.namespace(x).sum(backend.abs_squared(x))))


def _text(value: complex) -> str:
    return f"{value:.6g}" if value.imag else f"{value.real:.6g}"
