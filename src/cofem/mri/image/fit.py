"""One fit of the model ``image`` to measured data, seen in the user's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.model import ImageModel
from cofem.mri.image.options import ImageOptions, Progress
from cofem.mri.image.rule import Learned, learn
from cofem.mri.scanner.encoding import Encoding
from cofem.mri.scanner.measured import KSpace
from cofem.mri.scanner.noise import noise_ceiling
from cofem.mri.scanner.trajectory import TrajectoryData

Measured = KSpace | TrajectoryData

BLOCK = 8  # draws that are solved together
REPORT_RTOL = 0.02


@dataclass(frozen=True)
class Draws:
    """Draws of images minus their mean, in two parts that add up, (S, L, P).

    The mean is linear in the data, so its error is a sum: Q⁻¹ε, ε ~ N(0, βΦᴴΦ), from the noise,
    and Q⁻¹Px from the image x that the prior pulls towards zero. The first is known as well as
    the noise is. The second is that of an image which is like the prior, where the prior is right.

    Attributes
    ----------
    noise, prior : array (S, L, P)
    """

    noise: np.ndarray
    prior: np.ndarray


@dataclass(frozen=True)
class ImageFit:
    """What was learned, and the way back to the user's units.

    Attributes
    ----------
    model, learned
        Of :mod:`cofem.mri.image.model` and :mod:`cofem.mri.image.rule`.
    units : array (L, 1)
        What the scaled images are multiplied by.
    phases : array (L, P), or 1.0
        What was turned away of complex images.
    """

    model: ImageModel
    learned: Learned
    units: np.ndarray
    phases: Any

    def in_units(self, x: Array) -> np.ndarray:
        """Return scaled real images (…, I, P) as contrasts (…, L, P)."""
        scaled = backend.to_numpy(x).astype(np.float64)
        images = self.model.encoding.assembled(scaled)
        units = np.tile(self.units, (images.shape[-2] // len(self.units), 1))  # for every set
        return np.asarray(images * units * self.phases)

    @property
    def image(self) -> np.ndarray:
        """The posterior mean, (L, P)."""
        return np.asarray(self.in_units(self.learned.mean[None, ...])[0])

    @property
    def noise_std(self) -> np.ndarray:
        """√E|ε|² of every contrast, (L,)."""
        noise = backend.to_numpy(self.learned.noise_std).astype(float)
        return np.asarray(noise * self.units[:, 0])

    def draws(self, number: int, seed: int) -> Draws:
        """Draw images minus their mean, what noise and what the prior add apart."""
        model, state = self.model, self.learned
        matrix = model.precision(state.prior, state.noise_std, phase=state.phase)
        parts = []
        for i, first in enumerate(range(0, number, BLOCK)):
            rows = model.draws(matrix, min(BLOCK, number - first), seed, i, REPORT_RTOL)
            images = self.in_units(matrix.turned(rows))
            parts.append(images.reshape(2, -1, *images.shape[1:]))
        return Draws(*np.concatenate(parts, axis=1))

    @property
    def excess(self) -> float:
        """How many times the variance of the prior is what its precision says, by itself.

        The M-step counts every row of R, which learns the better image; but R has more rows
        than the image has directions, so the prior it leaves is too narrow by their ratio: the
        prior's normaliser counts directions, one for each axis's worth of rows.
        """
        return float(self.model.edges.n_axes)


def fit_image(
    data: Measured,
    real: bool,
    noise_std: np.ndarray | None,
    smooth: np.ndarray,
    options: ImageOptions,
    seed: int,
    callback: Callable[[Progress], None] | None = None,
    phase: np.ndarray | None = None,
) -> ImageFit:
    """Learn edges, noise and phase.

    Parameters
    ----------
    data : KSpace or TrajectoryData
    real : bool
    noise_std : array (L,), optional
        In the units of the data; learned where it is not given.
    smooth : boolean array (L,)
        Which contrasts have a smooth phase that is to be found.
    options, seed, callback
        As for :func:`cofem.mri.reconstruct`.
    phase : array (L, P), optional
        exp(iφ) as another fit found it; it is taken as it is.
    """
    first = None
    if smooth.any() and not real:
        first = data.first_phase(smooth) if phase is None else phase.reshape(-1, *data.shape)
    encoding = data.encoding(real, first)
    kspace = backend.from_numpy(data.kspace, data.like)
    xp = backend.namespace(kspace)
    projected = encoding.adjoint(kspace)
    start = _first_parts(data, first, encoding, projected)
    level = _levels(start, encoding)
    sizes = xp.reshape(level, (-1, *[1] * (kspace.ndim - 1)))
    power = xp.sum(backend.abs_squared(kspace / sizes), axis=tuple(range(1, kspace.ndim)))
    projected = projected / encoding.by_image(level)[:, None]
    model = ImageModel(
        encoding, projected, power, options, seed, data.centered, smooth & (not real),
        start / encoding.by_image(level)[:, None], phase is not None,
    )  # fmt: skip
    units = backend.to_numpy(level)[:, None]
    given, most = None, noise_ceiling(data) / units[:, 0]
    if noise_std is not None:
        # Below this the systems are singular in single precision; see options.least_noise.
        least = options.least_given * units[:, 0]
        scaled = np.maximum(noise_std, least) / units[:, 0]
        given = xp.astype(backend.from_numpy(scaled, data.like), xp.float32)
    ceiling = xp.astype(backend.from_numpy(most, data.like), xp.float32)
    learned = learn(model, given, callback, ceiling)
    phases: Any = 1.0
    if first is not None:
        phases = first.reshape(len(first), -1)
    if model.phase is not None:
        phases = phases * backend.to_numpy(model.phase)
    return ImageFit(model, learned, units, phases)


def _first_parts(
    data: Measured, phase: np.ndarray | None, encoding: Encoding, projected: Array
) -> Array:
    """Return where the images start, (I, P): Φᴴy on a grid, weighted samples elsewhere."""
    if isinstance(data, KSpace):
        return projected
    image = data.first_image()
    if phase is not None:
        image = image * phase.reshape(image.shape).conj()
    parts = image.real if encoding.n_parts == 1 else np.concatenate([image.real, image.imag])
    return backend.from_numpy(parts, projected)


def _levels(projected: Array, encoding: Encoding) -> Array:
    """Return the level of every contrast: √(Σ|x|⁴/Σ|x|²), blind to empty background."""
    xp = backend.namespace(projected)
    parts = xp.reshape(projected**2, (encoding.n_parts, -1, projected.shape[1]))
    power = xp.sum(parts, axis=0)
    total = xp.sum(power, axis=1)
    level = xp.sqrt(xp.sum(power**2, axis=1) / xp.where(total > 0, total, xp.ones_like(total)))
    # A contrast of zeros has no level of its own.
    return xp.where(total > 0, level, xp.max(level) * xp.ones_like(level))
