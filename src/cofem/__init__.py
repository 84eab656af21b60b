"""Sparse Bayesian learning with error bars, through any linear operator, without covariances.

>>> import numpy as np, cofem
>>> phi = cofem.operators.DCT(256, rows=np.arange(0, 256, 2))
>>> z = np.zeros(256); z[[3, 50]] = [2.0, -1.0]
>>> post = cofem.fit(phi, phi.forward(z), noise_precision=1e4)
>>> np.flatnonzero(post.support())
array([ 3, 50])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofem import calcium, mri, operators, plot, simulate, theory
    from cofem.fitting.calls import ConvergenceWarning, fit, posterior
    from cofem.many import ManyPosteriors, fit_many
    from cofem.model.methods import AMP, EM, VI, Banded, CoFEM, Sequential, Woodbury
    from cofem.result.posterior import Posterior
    from cofem.result.storage import load

__all__ = [
    "AMP",
    "EM",
    "VI",
    "Banded",
    "CoFEM",
    "ConvergenceWarning",
    "ManyPosteriors",
    "Posterior",
    "Sequential",
    "Woodbury",
    "calcium",
    "fit",
    "fit_many",
    "load",
    "mri",
    "operators",
    "plot",
    "posterior",
    "simulate",
    "theory",
]

__version__: str

# Where every name lives. It is imported when it is first asked for: SciPy, numba and
# matplotlib take a second, and `cofem --help` or Ctrl-C should not have to wait for them.
_HOMES = {
    "cofem.fitting.calls": ("ConvergenceWarning", "fit", "posterior"),
    "cofem.model.methods": ("AMP", "EM", "VI", "Banded", "CoFEM", "Sequential", "Woodbury"),
    "cofem.many": ("ManyPosteriors", "fit_many"),
    "cofem.result.posterior": ("Posterior",),
    "cofem.result.storage": ("load",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = (
    "calcium", "fields", "many", "mri", "operators", "plot", "simulate", "sklearn", "theory",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for, and keep it."""
    found: Any
    if name in _MODULES:
        return importlib.import_module(f"cofem.{name}")
    if name == "__version__":
        found = _version()
    elif name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'cofem' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES, "__version__"})


def _version() -> str:
    """Return the installed version, which comes from the tag; a bare checkout has none."""
    from importlib import metadata

    try:
        return metadata.version("cofem")
    except metadata.PackageNotFoundError:
        return "0+unknown"
