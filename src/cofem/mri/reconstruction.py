"""``reconstruct``: from undersampled k-space to images with error bars."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from cofem import backend
from cofem.arguments import flag, tolerance, whole_number
from cofem.learning.convergence import ConvergenceWarning
from cofem.mri.gradient_model import reconstruct_by_gradients
from cofem.mri.image.fit import Measured
from cofem.mri.image.options import ImageOptions, Progress
from cofem.mri.image.posterior import PHASES, reconstruct_image
from cofem.mri.result import Reconstruction
from cofem.mri.scanner.checks import checked_data
from cofem.mri.scanner.fully_sampled import inverse_transform
from cofem.mri.scanner.measured import KSpace
from cofem.mri.scanner.trajectory import checked_trajectory
from cofem.progress import FitProgress

MODELS = ("image", "gradient")


def reconstruct(
    kspace: Any,
    mask: Any = None,
    *,
    model: str = "image",
    trajectory: Any = None,
    shape: Any = None,
    sensitivities: Any = None,
    coil_covariance: Any = None,
    real: bool = False,
    phase: str = "auto",
    centered: bool = True,
    noise_std: Any = None,
    max_iter: int | None = None,
    tol: float | None = None,
    n_samples: int = 8,
    seed: int = 0,
    callback: Callable[[Progress], None] | None = None,
    progress: bool = False,
    options: Any = None,
) -> Reconstruction:
    """Reconstruct images of several contrasts from undersampled k-space.

    Parameters
    ----------
    kspace : array (L, H, W), or (L, coils, H, W) with sensitivities
        Orthonormal Fourier transforms of L contrasts of one object (three image axes work
        the same way). Use ``kspace[None]`` for a single contrast. A torch tensor on a GPU
        is worked on there (model "image"), and the results are tensors.
    mask : boolean array, optional
        What was measured; broadcasts to (L, H, W). None: where ``kspace`` is not zero.
    model : {"image", "gradient"}
        "image": one posterior of the images, whose gradients share a covariance at every
        pixel. "gradient": the paper's, sparse Bayesian learning of the gradients in each
        direction and a least-squares fusion; kept for comparison, for it is less accurate than
        tuned total variation and its intervals cover 30 to 70 %.
    trajectory : array (readouts, samples, axes) or (N, axes), or with L in front, optional
        Where the samples lie, in cycles over the field of view (−n/2 to n/2 along an axis):
        radial, spiral, in two or three dimensions. ``kspace`` is then (L, readouts, samples),
        or (L, coils, readouts, samples); there is no mask. Needs finufft.
    shape : tuple of int, optional
        Of the images, needed with a trajectory where no sensitivities say it.
    sensitivities : array (coils, H, W) or (L, coils, H, W), optional
        With axes (1, sets, coils, H, W), several images lie over each other, as where the object
        is wider than the field of view; ``image`` and ``std`` are then (L, sets, H, W), and
        ``numpy.linalg.norm(image, axis=1)`` shows them together.
    coil_covariance : array (coils, coils), optional
        Of the coils' noise, as :func:`cofem.mri.noise_covariance` gives it. Without it the
        coils are taken to be equally noisy, unless one stands out far from the centre of
        k-space. The noise that is reported is the mean of the coils'.
    real : bool
        The images are real. Conjugate symmetry then doubles the data.
    phase : {"auto", "smooth", "none"}
        Of complex images. "smooth": each contrast has a phase that varies slowly, which is
        found and removed; "none": nothing is assumed (fat and water, noise as strong as
        the images). "auto": for each contrast what predicts held-out samples better.
    centered : bool
        The zero frequency and the centre of the image are at n // 2, as in SigPy, BART
        and fastMRI. False: at 0, as ``numpy.fft`` has it.
    noise_std : float or array (L,), optional
        √E|ε|² of the complex noise on k-space, in the units of ``kspace``. None: learned.
    max_iter : int, optional
        The most EM iterations; None: the model's own.
    tol : float, optional
        Stop when the mean changes by less than this fraction; None: the model's own.
    n_samples : int
        Posterior draws behind ``std``.
    seed : int
        Decides every random number.
    callback : function, optional
        Called after every iteration.
    progress : bool
        Show a progress bar, with the time that is left at most.
    options : optional
        :class:`cofem.mri.ImageOptions`, or :class:`cofem.CoFEM` for "gradient": what
        experiments change.

    Returns
    -------
    Reconstruction

    Examples
    --------
    >>> from cofem import mri
    >>> truth = mri.phantom((64, 64))
    >>> mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
    >>> found = mri.reconstruct(mri.to_kspace(truth) * mask, mask, real=True)
    >>> mri.nrmse(found.image, truth) < 0.06
    True
    >>> found.std.shape, found.precision.shape
    ((3, 64, 64), (64, 64))
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, got {phase!r}")
    real, centered = flag("real", real), flag("centered", centered)
    n_samples = whole_number("n_samples", n_samples, 2)
    if max_iter is not None:
        max_iter = whole_number("max_iter", max_iter, 1)
    if tol is not None:
        tol = tolerance(tol)
    data: Measured
    if trajectory is not None:
        if model != "image" or mask is not None:
            raise ValueError('trajectory: only model="image" takes it, and without a mask')
        data = checked_trajectory(kspace, trajectory, shape, sensitivities, np.empty(0))
    else:
        data = checked_data(
            kspace, mask, sensitivities, real=real, centered=centered,
            coil_covariance=coil_covariance,
        )  # fmt: skip
    noise = checked_noise(noise_std, data)
    if data.n_sets > 1 and phase == "smooth":
        raise ValueError('phase="smooth" is for one set of sensitivities')
    if isinstance(data, KSpace) and data.fully_sampled and data.n_sets == 1:
        return inverse_transform(data, real, noise)

    def run(show: Callable[[Progress], None] | None) -> Reconstruction:
        if model == "image":
            settings = ImageOptions() if options is None else options
            return reconstruct_image(
                data, real, phase, noise, settings, max_iter, tol, n_samples, seed, callback, show
            )
        if data.sensitivities is not None or not isinstance(data, KSpace):
            raise ValueError('model="gradient" is for one coil; use model="image"')
        return reconstruct_by_gradients(
            data, real, noise, options, max_iter, tol, n_samples, seed, _both(callback, show)
        )

    size = " × ".join(map(str, data.kspace.shape))
    with backend.named_if_full(f"k-space of {size}", "move kspace to the host"):
        if progress:
            with FitProgress(label="mri") as bar:
                found = run(bar.update)
        else:
            found = run(None)
    if not found.converged:
        warnings.warn(found.message, ConvergenceWarning, stacklevel=2)
    return found


def checked_noise(noise_std: Any, data: Measured) -> np.ndarray | None:
    """Return the noise of every contrast, (L,)."""
    if noise_std is None:
        return None
    n_contrasts = len(data.mask)
    try:
        noise = np.asarray(noise_std, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"noise_std must be a number or an array, got {noise_std!r}") from None
    if noise.shape not in ((), (n_contrasts,)):
        raise ValueError(f"noise_std must be a number or {n_contrasts}, one for each contrast")
    if not (np.isfinite(noise).all() and (noise > 0).all()):
        raise ValueError(f"noise_std must be positive and finite, got {noise_std!r}")
    return np.broadcast_to(noise, (n_contrasts,)).copy()


def _both(
    first: Callable[[Progress], None] | None, second: Callable[[Progress], None] | None
) -> Callable[[Progress], None]:
    def call(state: Progress) -> None:
        for one in (first, second):
            if one is not None:
                one(state)

    return call
