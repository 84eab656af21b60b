"""Doors to the tools of other fields: MNE's sources and PySINDy's equations of motion."""

from typing import Any

__all__ = ["SparseBayesOptimizer", "mne_sources"]

_HOMES = {"SparseBayesOptimizer": "dynamics", "mne_sources": "sources"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: scikit-learn and MNE need not both be there."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'cofem.fields' has no attribute {name!r}")
    return getattr(importlib.import_module(f"cofem.fields.{_HOMES[name]}"), name)
