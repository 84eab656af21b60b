"""The fit of a standard design: under which prior, and where the noise comes from."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.model.model import Task
from cofem.result.posterior import Posterior
from cofem.sklearn.design import ENTRIES, EXACT, Design, with_all_samples

# With more than twice as many samples as directions the noise has an unbiased estimate,
# and EM's fixed point for it is well posed.
TALL = 2.0
# The noise precision is fitted again until it changes by less than this (its own uncertainty is
# √(2/N), more than 1 % for up to 20,000 samples), and at most so many times.
REFITS, SETTLED = 10, 0.01
# The largest signal to noise that is believed, 100 dB: beyond it residuals are rounding.
CLEANEST = 1e10
# Avoids a division by zero.
TINY = 1e-300


def fitted(design: Design, known: np.ndarray | None, **options: Any) -> Posterior:
    """Fit a design.

    Parameters
    ----------
    design : Design
    known : array (L,) or None
        The noise precision of every output, in the units of the data.
    **options
        Those of :func:`cofem.fit`.
    """
    if not np.any(design.inverse_scale > 0) and options["prior"] == "auto":
        options["prior"] = "ard"  # no feature varies: there is nothing to learn a prior from
    if known is not None:
        return _at(design, known * design.y_scale**2, options)
    tall = design.rotated and design.samples > TALL * design.rank
    several = len(design.y) > 1 and options["prior"] == "auto"
    if tall and (options["prior"] == "ard" or options["nonnegative"] or several):
        return _fixed_point(design, {**options, "prior": "ard"})
    # An exact fit of all features, and not of samples that only repeat few others.
    exact = not np.all(design.outside > EXACT * design.power)
    clean = exact and design.operator.shape[0] == int(np.sum(design.inverse_scale > 0))
    if tall and (clean or design.samples * design.operator.shape[1] > ENTRIES):
        return _at(design, _of_least_squares(design), options)
    return _at(with_all_samples(design), None, options)


def _at(design: Design, beta: np.ndarray | None, options: dict[str, Any]) -> Posterior:
    """Fit with β of every output, in the design's units, or None to have it learned."""
    if options["prior"] == "auto" and beta is not None and np.ptp(beta) > 0:
        options = {**options, "prior": "ard"}  # a learned prior is for one noise level
    with warnings.catch_warnings():
        # Told once, at the end, and only of the fit that counts.
        warnings.simplefilter("ignore", fitting.ConvergenceWarning)
        return fitting.fit(design.operator, design.y, noise_precision=beta, **options)


def _of_least_squares(design: Design) -> np.ndarray:
    """Return β from what least squares leaves: unbiased, whatever the weights are."""
    beta = (design.samples - design.rank) / np.maximum(design.outside, TINY)
    return np.asarray(np.minimum(beta, _cleanest(design)))


def _fixed_point(design: Design, options: dict[str, Any]) -> Posterior:
    """Return the fit at EM's fixed point, N/β = ‖y − Φμ‖² + Σ(1 − αΣ)/β, for every output."""
    beta, most = _of_least_squares(design), _cleanest(design)
    post = _at(design, beta, options)
    for _ in range(REFITS):
        residual = np.sum((design.y - design.operator.forward(post.mean)) ** 2, axis=1)
        left = np.maximum(residual + design.outside, TINY)
        new = np.minimum((design.samples - np.sum(freedom(post), axis=1)) / left, most)
        if np.max(np.abs(np.log(new / beta))) < SETTLED:
            break
        beta, post = new, _at(design, new, options)
    return post


def _cleanest(design: Design) -> np.ndarray:
    power = np.where(design.power > 0, design.power, 1.0)
    return np.asarray(CLEANEST * design.samples / power)


def freedom(post: Posterior) -> np.ndarray:
    """Return 1 − α_j Σ_jj for every output, (L, D)."""
    shares = backend.to_numpy(post.precision * post.gaussian_variance)
    return np.asarray(np.clip(1 - shares, 0.0, 1.0))


def without_samples(design: Design, post: Posterior) -> Posterior:
    """Return the posterior with the design's few rows in place of one for every sample.

    They have the same Gram matrix, and that is all that draws and variances need.
    """
    if not design.rotated:
        return post
    tasks = tuple(
        Task(design.operator, y, task.noise_precision)
        for y, task in zip(design.y, post.tasks, strict=True)
    )
    return replace(post, tasks=tasks)
