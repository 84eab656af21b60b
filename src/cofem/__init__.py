"""Sparse Bayesian learning with error bars, through any linear operator, without covariances.

>>> import numpy as np, cofem
>>> phi = cofem.operators.DCT(256, rows=np.arange(0, 256, 2))
>>> z = np.zeros(256); z[[3, 50]] = [2.0, -1.0]
>>> post = cofem.fit(phi, phi.forward(z), noise_precision=1e4)
>>> np.flatnonzero(post.support())
array([ 3, 50])
"""

from typing import Any

from cofem import operators
from cofem.fitting import ConvergenceWarning, fit, posterior
from cofem.inference.methods import AMP, EM, VI, Banded, CoFEM, Sequential, Woodbury
from cofem.many import ManyPosteriors, fit_many
from cofem.posterior import Posterior
from cofem.storage import load

__version__ = "0.1.0"

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


_LATE = ("calcium", "mri", "plot", "simulate", "sklearn", "theory")


def __getattr__(name: str) -> Any:
    """Import the parts that cost time (matplotlib) when they are first asked for."""
    if name in _LATE:
        import importlib

        return importlib.import_module(f"cofem.{name}")
    raise AttributeError(f"module 'cofem' has no attribute {name!r}")
