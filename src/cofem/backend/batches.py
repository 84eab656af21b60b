"""Solving batches on a device: found without importing torch before it is needed."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import array_api_compat as compat

from cofem.backend.arrays import Array
from cofem.backend.products import MaskedTransform

if TYPE_CHECKING:
    from cofem.backend._torch.engine import Engine


def has_engine(x: Array) -> bool:
    """Whether batches like ``x`` can be solved by an :func:`engine_for` them.

    That needs torch on CUDA, and Triton, which torch brings along on Linux.
    """
    return bool(compat.is_torch_array(x)) and x.device.type == "cuda" and _triton_is_there()


@functools.cache
def _triton_is_there() -> bool:
    return importlib.util.find_spec("triton") is not None


def engine_for(
    product: MaskedTransform | Callable[[Array], Array], rhs: Array, keep_coefficients: int = 0
) -> Engine:
    """Return an engine for systems like ``rhs`` (Q, D), a tensor.

    Parameters
    ----------
    product : MaskedTransform or function
        ΦᴴΦ for rows (Q, D).
    rhs : tensor (Q, D)
    keep_coefficients : int
        For how many steps the coefficients of CG are kept; 0 for none.
    """
    from cofem.backend._torch import pool

    return pool.engine_for(product, rhs, keep_coefficients)


def give_back_engine(engine: Any) -> None:
    """Let the next batch of the same shape use the engine's arrays and graphs."""
    from cofem.backend._torch.pool import give_back

    give_back(engine)


def forget_engines() -> None:
    """Let go of the arrays and graphs that are kept for later on a GPU."""
    from cofem.backend._torch import pool
    from cofem.backend._torch import repeated as recordings

    pool.forget()
    recordings.forget()


def repeated(
    function: Callable[..., tuple[Array, ...]], *arguments: Array, **constants: Any
) -> tuple[Array, ...]:
    """Return ``function(*arguments, **constants)``; on a GPU, from the second time on, at once.

    For functions of many small operations that are called again and again with arrays of
    the same shapes: the operations are recorded and later launched together, since
    launching each takes longer than doing it.

    Parameters
    ----------
    function : function of a module
        Pure: new arrays from its arguments, by operations that are the same whatever the
        numbers are. It may not look at one, nor bring any from the host.
    arguments : arrays
        The first decides whether there is a GPU.
    constants : hashable
        Whatever else decides the operations: each value is recorded apart.

    Examples
    --------
    >>> import numpy as np
    >>> repeated(lambda x, y, times: (times * x + y,), np.ones(2), np.ones(2), times=3)
    (array([4., 4.]),)
    """
    if not has_engine(arguments[0]):
        return function(*arguments, **constants)
    from cofem.backend._torch import repeated as recordings

    return recordings.repeated(function, arguments, constants)
