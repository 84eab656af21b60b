"""The model ``gradient``: sparse Bayesian learning of the gradients, then a fusion.

The paper's model (Lin et al. 2022), after Bilgic, Goyal and Adalsteinsson (2011). For each
direction the differences of all contrasts share their sparsity; their k-space is that of
the image times a known factor. The images that fit both directions best in the least-squares
sense, and the measured k-space exactly, are found frequency by frequency.

EM goes from gradients that are not sparse enough to such as are too sparse, and the images
are best somewhere between. The average of the means along that way is better than any of
them, and does not depend on where one stops.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from cofem import backend
from cofem.fitting.calls import fit
from cofem.learning.convergence import ConvergenceWarning
from cofem.model.methods import CoFEM
from cofem.mri.image.options import HISTORY, Progress
from cofem.mri.result import Reconstruction
from cofem.mri.scanner.fully_sampled import estimated_noise
from cofem.mri.scanner.measured import KSpace
from cofem.mri.scanner.mirror import mirrored
from cofem.operators import Fourier

MOST_ITERATIONS = 40
# The average along the way begins here, and ends when it moves by less than this.
FIRST_AVERAGED, TOLERANCE = 3, 0.007
# Of the E-step (the table in docs/notes/mri.md); and the prior starts at differences of 3 % of the
# brightest pixel, 1000^-½, as that of the paper's authors does.
PROBES, PROBE_RTOL, FIRST_PRECISION = 4, 0.1, 1000.0
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
    fusion, average = Fusion(data, real), False
    if method is None:
        # Scaled or shrunken probes are cheaper, and worse here (docs/mri.md). No reporting
        # step: error bars come from draws.
        average = True
        method = CoFEM(
            n_probes=PROBES,
            probe_rtol=PROBE_RTOL,
            scaled_probes=False,
            shrinkage=False,
            initial_precision=FIRST_PRECISION / brightest**2,
            report_probes=0,
        )
    history: dict[str, list[Any]] = {name: [] for name in HISTORY}
    limit = MOST_ITERATIONS if max_iter is None else max_iter
    stop = TOLERANCE if tol is None else tol
    posteriors, ways = [], []
    for axis in range(len(data.shape)):
        ways.append(_Way(history, noise, callback, limit, stop if average else None))
        # An average has a rule of its own for when to stop.
        rule = 0.0 if average else stop
        posteriors.append(
            _fit_direction(data, fusion, axis, real, noise, method, limit, rule, seed, ways[-1])
        )
    means = [backend.to_numpy(post.mean) for post in posteriors]
    if average:
        means = [way.average(mean) for way, mean in zip(ways, means, strict=True)]
    image = fusion.fused(means)

    def sampler(number: int, stream: int) -> np.ndarray:
        draws = [
            backend.to_numpy(post.sample(number, seed=stream + axis)) - backend.to_numpy(post.mean)
            for axis, post in enumerate(posteriors)
        ]
        return data.restored(fusion.unmeasured(draws))

    deviations = sampler(n_samples, seed)
    mean_variance = np.mean([1 / backend.to_numpy(post.precision) for post in posteriors], axis=0)
    converged = all(
        way.settled if average else post.converged
        for way, post in zip(ways, posteriors, strict=True)
    )
    ended = "settled" if converged else "had not settled; raise max_iter"
    return Reconstruction(
        image=data.handed_back(data.restored(image)),
        std=data.handed_back(np.sqrt(np.mean(np.abs(deviations) ** 2, axis=0))),
        precision=data.handed_back(data.restored(1 / mean_variance)),
        noise_std=noise,
        history=history,
        converged=converged,
        model="gradient",
        _sampler=sampler,
        message=f"after {len(history['iteration'])} iterations the gradients {ended}",
    )


def _fit_direction(
    data: KSpace,
    fusion: Fusion,
    axis: int,
    real: bool,
    noise: np.ndarray,
    method: CoFEM,
    max_iter: int,
    tol: float,
    seed: int,
    record: Callable[[Any], bool],
) -> Any:
    """Fit the differences along one axis, all contrasts together."""
    factor = fusion.factors[axis]
    phi = [Fourier(data.shape, mask) for mask in data.mask]
    y: list[Any] = [(k * factor)[mask] for k, mask in zip(data.kspace, data.mask, strict=True)]
    if backend.has_engine(data.like):  # on a CPU NumPy is the fastest
        y = [data.handed_back(task) for task in y]
    # The factor's mean square is two, and so the noise's on the differences.
    level = float(np.mean(noise**2)) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said once, for the images
        return fit(
            phi,
            y,
            noise_precision=1 / level,
            method=method,
            prior="ard",  # this model is the paper's
            real=real,
            max_iter=max_iter,
            tol=tol,
            seed=seed,
            callback=record,
        )


class _Way:
    """What a fit is shown of: writes it down, and averages the means on the way.

    Parameters
    ----------
    history, noise, callback, max_iter
        What to write to, and what every iteration has besides.
    tol : float, optional
        Stop when the average moves by less than this fraction. None: never.
    """

    def __init__(
        self,
        history: dict[str, list[Any]],
        noise: np.ndarray,
        callback: Callable[[Progress], None] | None,
        max_iter: int,
        tol: float | None,
    ) -> None:
        self._history, self._noise, self._callback = history, noise, callback
        self._max_iter, self._tol = max_iter, tol
        self._products = history["products"][-1] if history["products"] else 0
        self._seconds = history["seconds"][-1] if history["seconds"] else 0.0
        self._sum: Any = 0.0
        self._number = 0
        self.settled = False

    def __call__(self, state: Any) -> bool:
        """Take an iteration, and say whether it is to be the last."""
        change = float(state.change)
        if self._tol is not None and state.iteration >= FIRST_AVERAGED:
            change = self._take(np.atleast_2d(backend.to_numpy(state.mean)))
            self.settled = self._number > 1 and change <= self._tol
        values = (
            state.iteration, change, self._noise, int(state.cg_steps),
            self._products + int(state.products), self._seconds + float(state.seconds),
        )  # fmt: skip
        for name, value in zip(HISTORY, values, strict=True):
            self._history[name].append(value)
        if self._callback is not None:
            self._callback(Progress(state.iteration, self._max_iter, change, values[3]))
        return self.settled

    def average(self, mean: np.ndarray) -> np.ndarray:
        """Return the average, or ``mean`` where there were too few iterations for one."""
        return mean if self._number == 0 else (self._sum / self._number).reshape(mean.shape)

    def _take(self, mean: np.ndarray) -> float:
        before = self._sum / max(self._number, 1)
        self._sum, self._number = self._sum + mean, self._number + 1
        now = self._sum / self._number
        size = float(np.linalg.norm(now))
        return float(np.linalg.norm(now - before)) / size if size > 0 else 0.0


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
