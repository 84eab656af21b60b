"""Steps that wait for the next batch of their shape, with their arrays and graphs."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from cofem.backend import MaskedTransform, launches
from cofem.solvers.steps.cuda.fused import Product
from cofem.solvers.steps.cuda.steps import KEEP_BELOW, CudaSteps

# Shapes of batches that a fit alternates between, and a few of the fit before. A reconstruction of
# images has most: learning and draws, coarse and fine, before and after the phase is looked for.
MOST = 12

_kept: dict[tuple[Any, ...], CudaSteps] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def steps_for(product: Product, rhs: Any, keep_coefficients: int) -> Iterator[CudaSteps]:
    """Lend steps for systems like ``rhs`` (Q, D), idle ones if there are some.

    Parameters
    ----------
    product : MaskedTransform or Bulk
        ΦᴴΦ for rows (Q, D).
    rhs : tensor (Q, D)
    keep_coefficients : int
        For how many steps the coefficients of CG are kept; 0 for none.
    """
    key = _key(product, rhs, keep_coefficients)
    with _lock:
        steps = _kept.pop(key, None)
    if steps is None:
        steps = CudaSteps(product, rhs, keep_coefficients)
        steps.key = key
        _let_go_with(product, key)
    try:
        yield steps
    finally:
        steps.forget_systems()
        if steps.graphed:
            _keep(steps)


def _keep(steps: CudaSteps) -> None:
    """Keep steps for the next batch."""
    with _lock:
        _kept[steps.key] = steps
        while len(_kept) > MOST or sum(e.bytes for e in _kept.values()) > KEEP_BELOW:
            _kept.pop(next(iter(_kept)))


def _let_go_with(product: Product, key: tuple[Any, ...]) -> None:
    """Drop steps when the operators end whose identity is in their key."""
    if isinstance(product, MaskedTransform) or product.kind:
        return
    for owner in product.owners:
        if owner is not None:
            weakref.finalize(owner, _drop, key).atexit = False


def _drop(key: tuple[Any, ...]) -> None:
    _kept.pop(key, None)


def forget() -> None:
    """Let go of all idle steps."""
    with _lock:
        _kept.clear()


launches.on_forget(forget)


def _key(product: Product, rhs: Any, keep_coefficients: int) -> tuple[Any, ...]:
    kind: Any
    if isinstance(product, MaskedTransform):
        kind = (product.kind, product.shape, product.real)
    else:
        kind = product.kind or tuple(id(owner) for owner in product.owners)
    return (kind, tuple(rhs.shape), rhs.dtype, str(rhs.device), keep_coefficients)
