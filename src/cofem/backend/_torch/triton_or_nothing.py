"""Triton where it is installed; kernels are never called where it is not (see has_engine)."""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language

    jit: Any = triton.jit
    tl: Any = triton.language
except ImportError:
    tl = None

    def jit(function: Any) -> Any:
        """Return the function as it is."""
        return function
