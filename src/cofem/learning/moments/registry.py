"""From a method to the E-steps that compute its moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cofem import backend
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.learning.moments.banded import BandedEStep
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.exact import CholeskyEStep, WoodburyEStep
from cofem.learning.moments.gaussian import EStep
from cofem.model.methods import CoFEM, Method
from cofem.model.model import Family, Model, initial_precision, relative_units

# The exact E-steps, each of one family of tasks. A method that is not here has none of its own.
EXACT: dict[str, Callable[[Family, Model, Any], EStep]] = {
    "em": lambda family, model, method: CholeskyEStep(
        family, model.like, model.sparsifier, method.leverage
    ),
    "woodbury": lambda family, model, _: WoodburyEStep(family, model.like),
    "banded": lambda family, model, _: BandedEStep(family, model.like),
}


def make_esteps(model: Model, method: Method, seed: int, group: Group | None = None) -> list[EStep]:
    """Return the E-step of every family; CoFEM's for the methods that have none."""
    make = EXACT.get(method.name)
    if make is not None:
        return [make(family, model, method) for family in model.families]
    options = method if isinstance(method, CoFEM) else CoFEM()
    return [*covariance_free_esteps(model, options, seed, group)]


def covariance_free_esteps(
    model: Model, options: CoFEM, seed: int, group: Group | None = None
) -> list[CovarianceFreeEStep]:
    """Return CoFEM's E-step of every family."""
    return [
        CovarianceFreeEStep(family, options, model.like, seed, i, model.sparsifier, group)
        for i, family in enumerate(model.families)
    ]


def starting_precision(model: Model, method: Method) -> Array:
    """Return the α to start from: the same for every coordinate, in units of its column."""
    like = model.like
    xp = backend.namespace(like)
    value = method.initial_precision
    dtype = backend.real_dtype(like.dtype, xp)
    if value is None:
        value = initial_precision(model)
        if model.sparsifier is None:
            return xp.astype(value * relative_units(model), dtype, copy=False)
    return xp.full((model.n_precisions,), value, dtype=dtype, device=backend.device_of(like))
