"""From a method's name to the code that runs it."""

from __future__ import annotations

from cofem import backend
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.inference import amp, sequential, vi
from cofem.inference.estep_banded import BandedEStep
from cofem.inference.estep_cofem import CovarianceFreeEStep
from cofem.inference.estep_exact import CholeskyEStep, WoodburyEStep
from cofem.inference.loop import Callback, Keeper, Outcome, run_em
from cofem.inference.methods import AMP, EM, VI, Banded, CoFEM, Method, Sequential, Woodbury
from cofem.inference.model import Family, Model, initial_precision, relative_units
from cofem.inference.moments import EStep


def run_method(
    model: Model,
    method: Method,
    alpha: Array,
    *,
    seed: int,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
    group: Group | None = None,
) -> Outcome:
    """Run any method from the precisions ``alpha``: the EM loop, or a loop of its own."""
    if isinstance(method, AMP):
        return amp.run(
            model, method, alpha, seed=seed, max_iter=max_iter, tol=tol, callback=callback
        )
    if isinstance(method, VI):
        return vi.run(
            model, method, alpha, seed=seed, max_iter=max_iter, tol=tol, callback=callback
        )
    if isinstance(method, Sequential):
        return sequential.run(
            model, method, alpha, seed=seed, max_iter=max_iter, tol=tol, callback=callback
        )
    esteps = make_esteps(model, method, seed, group)
    return run_em(
        model, esteps, alpha, max_iter=max_iter, tol=tol, callback=callback, keeper=keeper
    )


def make_esteps(
    model: Model, method: Method, seed: int, group: Group | None = None
) -> list[EStep]:
    """Return the E-step of every family; CoFEM's for the methods that have none."""
    like, sparsifier = model.like, model.sparsifier
    if not isinstance(method, (EM, Woodbury, Banded)):
        options = method if isinstance(method, CoFEM) else CoFEM()
        return [*covariance_free_esteps(model, options, seed, group)]

    def one(family: Family) -> EStep:
        if isinstance(method, EM):
            return CholeskyEStep(family, like, sparsifier, method.leverage)
        if isinstance(method, Woodbury):
            return WoodburyEStep(family, like)
        return BandedEStep(family, like)

    return [one(family) for family in model.families]


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
