"""Engines that wait for the next batch of their shape, with their arrays and graphs."""

from __future__ import annotations

import threading
from typing import Any

from cofem.backend._torch.engine import KEEP_BELOW, Engine, Product
from cofem.backend.products import MaskedTransform

_kept: dict[tuple[Any, ...], Engine] = {}
_lock = threading.Lock()


def engine_for(product: Product, rhs: Any, keep_coefficients: int) -> Engine:
    """Return an engine for systems like ``rhs`` (Q, D), an idle one if there is one.

    Parameters
    ----------
    product : MaskedTransform or function
        ΦᴴΦ for rows (Q, D).
    rhs : tensor (Q, D)
    keep_coefficients : int
        For how many steps the coefficients of CG are kept; 0 for none.
    """
    key = _key(product, rhs, keep_coefficients)
    with _lock:
        engine = _kept.pop(key, None)
    if engine is None:
        engine = Engine(product, rhs, keep_coefficients)
        engine.key = key
    else:
        engine.load_product(product)
    return engine


def give_back(engine: Engine) -> None:
    """Keep an engine for the next batch of its shape, if it is small and of a known kind."""
    engine.forget_systems()
    if engine.graphed:
        with _lock:
            _kept[engine.key] = engine
            while len(_kept) > 6 or sum(e.bytes for e in _kept.values()) > KEEP_BELOW:
                _kept.pop(next(iter(_kept)))


def forget() -> None:
    """Let go of all idle engines."""
    with _lock:
        _kept.clear()


def _key(product: Product, rhs: Any, keep_coefficients: int) -> tuple[Any, ...]:
    kind: Any = id(product)
    if isinstance(product, MaskedTransform):
        kind = (product.kind, product.shape, product.real)
    return (kind, tuple(rhs.shape), rhs.dtype, str(rhs.device), keep_coefficients)
