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
