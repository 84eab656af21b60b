"""The model ``gradient``: sparse Bayesian learning of the gradients, then a fusion.

The paper's model (Lin et al. 2022), after Bilgic, Goyal and Adalsteinsson (2011). For each
direction the differences of all contrasts share their sparsity; their k-space is that of
the image times a known factor. The images that fit both directions best in the least-squares
sense, and the measured k-space exactly, are found frequency by frequency.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from cofem.fitting import fit
from cofem.inference.convergence import ConvergenceWarning
from cofem.inference.methods import CoFEM
from cofem.mri.checks import KSpace
from cofem.mri.encoding import mirrored
from cofem.mri.fully_sampled import estimated_noise
from cofem.mri.image_model import HISTORY, Progress
from cofem.mri.result import Reconstruction
from cofem.operators import Fourier

# Run much longer, the gradients become too sparse and the images worse.
MOST_ITERATIONS, TOLERANCE = 20, 0.03
LEAST_NOISE = 1e-3  # beside the largest brightness of the zero-filled images


def reconstruct_by_gradients(
    data: KSpace,
    real: bool,
    noise_std: np.ndarray | None,
    method: CoFEM | None,
    max_iter: int | None,
    tol: float | None,
    n_samples: int,
    seed: int,
    callback: Callable[[Progress], None] | None,
) -> Reconstruction:
    """Learn both gradients, then fuse; see :func:`cofem.mri.reconstruct`."""
    axes = tuple(range(1, 1 + len(data.shape)))
    brightest = np.abs(scipy.fft.ifftn(data.kspace, axes=axes, norm="ortho")).max()
    noise = estimated_noise(data, real) if noise_std is None else noise_std
    noise = np.maximum(noise, LEAST_NOISE * brightest)
    fusion = Fusion(data, real)
    if method is None:
        # The prior starts at differences of 3 % of the brightest pixel, as the authors' does.
        # Fewer or shrunken probes are cheaper, and worse here (docs/mri.md). No reporting
        # step: error bars come from draws.
        method = CoFEM(
            n_probes=8,
            scaled_probes=False,
            shrinkage=False,
            initial_precision=1000 / brightest**2,
            report_probes=0,
        )
    history: dict[str, list[Any]] = {name: [] for name in HISTORY}
    posteriors = []
    for axis in range(len(data.shape)):
        record = _recorder(history, noise, callback, max_iter or MOST_ITERATIONS)
        posteriors.append(
            _fit_direction(data, fusion, axis, real, noise, method, max_iter, tol, seed, record)
        )
    image = fusion.fused([np.asarray(post.mean) for post in posteriors])

    def sampler(number: int, stream: int) -> np.ndarray:
        draws = [
            np.asarray(post.sample(number, seed=stream + axis)) - np.asarray(post.mean)
            for axis, post in enumerate(posteriors)
        ]
        return data.restored(fusion.unmeasured(draws))

    deviations = sampler(n_samples, seed)
    mean_variance = np.mean([1 / np.asarray(post.precision) for post in posteriors], axis=0)
    return Reconstruction(
        image=data.handed_back(data.restored(image)),
        std=data.handed_back(np.sqrt(np.mean(np.abs(deviations) ** 2, axis=0))),
        precision=data.handed_back(data.restored(1 / mean_variance)),
        noise_std=noise,
        history=history,
        converged=all(post.converged for post in posteriors),
        model="gradient",
        _sampler=sampler,
    )


def _fit_direction(
    data: KSpace,
    fusion: Fusion,
    axis: int,
    real: bool,
    noise: np.ndarray,
    method: CoFEM,
    max_iter: int | None,
    tol: float | None,
    seed: int,
    record: Callable[[Any], None],
) -> Any:
    """Fit the differences along one axis, all contrasts together."""
    factor = fusion.factors[axis]
    phi = [Fourier(data.shape, mask) for mask in data.mask]
    y = [(k * factor)[mask] for k, mask in zip(data.kspace, data.mask, strict=True)]
    # The factor's mean square is two, and so the noise's on the differences.
    level = float(np.mean(noise**2)) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said once, for the images
        return fit(
            phi,
            y,
            noise_precision=1 / level,
            method=method,
            real=real,
            max_iter=MOST_ITERATIONS if max_iter is None else max_iter,
            tol=TOLERANCE if tol is None else tol,
            seed=seed,
            callback=record,
        )


def _recorder(
    history: dict[str, list[Any]],
    noise: np.ndarray,
    callback: Callable[[Progress], None] | None,
    max_iter: int,
) -> Callable[[Any], None]:
    products = history["products"][-1] if history["products"] else 0
    seconds = history["seconds"][-1] if history["seconds"] else 0.0

    def record(state: Any) -> None:
        values = (
            state.iteration, float(state.change), noise, int(state.cg_steps),
            products + int(state.products), seconds + float(state.seconds),
        )  # fmt: skip
        for name, value in zip(HISTORY, values, strict=True):
            history[name].append(value)
        if callback is not None:
            callback(Progress(state.iteration, max_iter, values[1], values[3]))

    return record


class Fusion:
    """The least-squares image of several gradient fields that keeps what was measured.

    Minimising Σ_d ‖∂_d x − z_d‖² over the frequencies that were not measured gives
    x̂ = Σ_d conj(δ_d) ẑ_d / Σ_d |δ_d|² there (the paper's Appendix D).
    """

    def __init__(self, data: KSpace, real: bool) -> None:
        self._axes = tuple(range(-len(data.shape), 0))
        self._shape, self._real = data.shape, real
        self.factors = []
        for axis, side in enumerate(data.shape):
            wave = 1 - np.exp(-2j * np.pi * np.arange(side) / side)
            grid = wave.reshape([-1 if i == axis else 1 for i in range(len(data.shape))])
            self.factors.append(np.broadcast_to(grid, data.shape))
        self._power = sum(np.abs(factor) ** 2 for factor in self.factors)
        self._known, self._measured = data.kspace, data.mask
        if real:  # a sample at k is one at −k
            other, there = mirrored(data.kspace, self._axes).conj(), mirrored(data.mask, self._axes)
            count = data.mask.astype(int) + there
            self._known = (data.kspace + other) / np.maximum(count, 1)
            self._measured = data.mask | there

    def fused(self, gradients: list[np.ndarray]) -> np.ndarray:
        """Return the images (L, P) for the gradients (L, P) of every direction."""
        return self._image(np.where(self._measured, self._known, self._spectrum(gradients)))

    def unmeasured(self, gradients: list[np.ndarray]) -> np.ndarray:
        """Return what gradients (…, L, P) add where nothing was measured."""
        return self._image(np.where(self._measured, 0, self._spectrum(gradients)))

    def _spectrum(self, gradients: list[np.ndarray]) -> np.ndarray:
        total: Any = 0
        for factor, g in zip(self.factors, gradients, strict=True):
            grid = g.reshape(*g.shape[:-1], *self._shape)
            total = total + factor.conj() * scipy.fft.fftn(grid, axes=self._axes, norm="ortho")
        power = np.where(self._power > 0, self._power, 1.0)
        return np.asarray(np.where(self._power > 0, total / power, 0.0))

    def _image(self, spectrum: np.ndarray) -> np.ndarray:
        image = scipy.fft.ifftn(spectrum, axes=self._axes, norm="ortho")
        image = image.reshape(*image.shape[: image.ndim - len(self._shape)], -1)
        return np.asarray(image.real if self._real else image)
