"""From checked data to the posterior of the model ``image``, in the user's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.checks import KSpace
from cofem.mri.encoding import Encoding, make_encoding
from cofem.mri.image_model import ImageModel, Learned
from cofem.mri.image_options import ImageOptions, Progress
from cofem.mri.image_precision import ImagePrecision
from cofem.mri.phase import smooth_phase
from cofem.mri.result import Reconstruction
from cofem.operators import Smoothing

BLOCK = 8  # draws that are solved together
REPORT_RTOL = 0.02
LEAST_CERTAINTY = 0.25  # for neighbourhoods of hardly more than the pixel itself


def reconstruct_image(
    data: KSpace,
    real: bool,
    noise_std: np.ndarray | None,
    options: ImageOptions,
    max_iter: int | None,
    tol: float | None,
    n_samples: int,
    seed: int,
    callback: Callable[[Progress], None] | None,
) -> Reconstruction:
    """Learn, then report; see :func:`cofem.mri.reconstruct`."""
    if not isinstance(options, ImageOptions):
        raise TypeError(f"options must be an ImageOptions, got {type(options).__name__}")
    if max_iter is not None:
        options = replace(options, max_iter=max_iter)
    if tol is not None:
        options = replace(options, tol=tol)
    kspace, mask, coils = (
        _moved(x, data.like) for x in (data.kspace, data.mask.astype(float), data.sensitivities)
    )
    xp = backend.namespace(kspace)
    phase = None if real else _moved(smooth_phase(data), data.like)
    encoding = make_encoding(mask, coils, real, phase)
    projected = encoding.adjoint(kspace)
    level = _levels(projected, encoding)
    sizes = xp.reshape(level, (-1, *[1] * (kspace.ndim - 1)))
    power = xp.sum(backend.abs_squared(kspace / sizes), axis=tuple(range(1, kspace.ndim)))
    projected = projected / encoding.by_image(level)[:, None]
    model = ImageModel(encoding, projected, power, options, seed, data.centered)
    given = None
    if noise_std is not None:
        given = xp.astype(_moved(noise_std, data.like) / level, xp.float32)
    learned = model.learn(given, callback)
    phases: Any = 1.0
    if phase is not None:
        phases = backend.to_numpy(phase).reshape(len(data.mask), -1)
        if model.phase is not None:
            phases = phases * backend.to_numpy(model.phase)
    units = backend.to_numpy(level)[:, None]
    return _report(data, model, learned, units, phases, n_samples, seed)


def _report(
    data: KSpace,
    model: ImageModel,
    learned: Learned,
    units: np.ndarray,
    phases: Any,
    n_samples: int,
    seed: int,
) -> Reconstruction:
    strength = _reported_strength(model)
    matrix = model.precision(learned.prior, learned.noise_std, strength, learned.phase)

    def in_units(rows: Array) -> np.ndarray:
        x = backend.to_numpy(rows).astype(np.float64)
        return data.restored(model.encoding.assembled(x) * units * phases)

    def sampler(number: int, stream: int) -> Array:
        parts = []
        for i, first in enumerate(range(0, number, BLOCK)):
            rows, _ = model.draws(matrix, min(BLOCK, number - first), stream, i, REPORT_RTOL)
            parts.append(in_units(matrix.turned(rows)))
        return data.handed_back(np.concatenate(parts))

    variance = _variance(model, matrix, n_samples, seed) * units**2
    history = {name: list(values) for name, values in learned.history.items()}
    history["noise_std"] = [value * units[:, 0] for value in history["noise_std"]]
    spread = backend.to_numpy(learned.prior.spread).astype(float) * np.mean(units**2)
    return Reconstruction(
        image=data.handed_back(in_units(learned.mean[None, ...])[0]),
        std=data.handed_back(data.restored(np.sqrt(variance))),
        precision=data.handed_back(data.restored(1 / spread)),
        noise_std=np.asarray(history["noise_std"][-1]),
        history=history,
        converged=learned.converged,
        model="image",
        _sampler=sampler,
    )


def _reported_strength(model: ImageModel) -> float:
    """Return what the learned prior is to be multiplied by where error bars are wanted.

    The M-step counts every row of R, which learns the better image; but R has more rows than
    the image has directions, so the prior it leaves is too narrow by their ratio: the prior's
    normaliser counts directions, one for each axis's worth of rows. And a covariance that is
    estimated from ν neighbours is uncertain itself: a Gaussian of unknown covariance is a
    Student t of ν degrees of freedom, whose covariance is larger by ν/(ν − 2).
    """
    degrees = model.neighbours
    known = max(1 - 2 / degrees, LEAST_CERTAINTY)
    return known / model.edges.n_axes


def _variance(
    model: ImageModel, matrix: ImagePrecision, n_samples: int, seed: int
) -> np.ndarray:
    """Estimate the variances of the contrasts, (L, P), from draws.

    Given all other pixels, x_j has variance 1/Q_jj and mean x_j − (Qx)_j/Q_jj; averaging
    over that knowledge (Rao–Blackwell; Sidén et al. 2018) costs nothing, since Qx is what
    was solved. What is left of the Monte-Carlo error is smoothed over half a pixel.
    """
    xp = backend.namespace(matrix.preconditioner)
    total: Array = 0.0
    for index, first in enumerate(range(0, n_samples, BLOCK)):
        number = min(BLOCK, n_samples - first)
        x, pushes = model.draws(matrix, number, seed, index, REPORT_RTOL)
        given_others = matrix.turned(x) - matrix.images(pushes / matrix.preconditioner)
        total = total + xp.sum(backend.abs_squared(given_others), axis=0)
    variance = matrix.images(1 / matrix.preconditioner[None, :])[0, ...] + total / n_samples
    rows = xp.reshape(variance, (model.encoding.n_parts, -1, model.edges.size))
    smooth = Smoothing(model.edges.shape, 0.7).forward(xp.sum(rows, axis=0))
    return backend.to_numpy(smooth).astype(float)


def _levels(projected: Array, encoding: Encoding) -> Array:
    """Return the level of every contrast: √(Σ|x|⁴/Σ|x|²), blind to empty background."""
    xp = backend.namespace(projected)
    parts = xp.reshape(projected**2, (encoding.n_parts, -1, projected.shape[1]))
    power = xp.sum(parts, axis=0)
    total = xp.sum(power, axis=1)
    level = xp.sqrt(xp.sum(power**2, axis=1) / xp.where(total > 0, total, xp.ones_like(total)))
    # A contrast of zeros has no level of its own.
    return xp.where(total > 0, level, xp.max(level) * xp.ones_like(level))


def _moved(x: np.ndarray | None, like: Array) -> Any:
    return None if x is None else backend.from_numpy(x, like)
