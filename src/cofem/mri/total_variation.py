"""Joint total variation: the baseline that the SBL models are measured against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from cofem.mri.scanner.checks import checked_data
from cofem.mri.scanner.coil_encoding import make_encoding
from cofem.mri.scanner.measured import KSpace
from cofem.mri.scanner.mirror import mirrored

COIL_STEPS = 4  # CG steps an iteration of ADMM; the image of the last one is near
RHO = 10  # of ADMM, beside λ: it decides how fast it converges, not where to
# Below these a gradient, and an eigenvalue beside those of ΦᴴΦ, which are 0 to 1, are zero.
TINY, LEAST_EIGENVALUE = 1e-30, 1e-12
Solver = Callable[[np.ndarray, np.ndarray], np.ndarray]


def joint_total_variation(
    kspace: Any,
    mask: Any = None,
    *,
    weight: float,
    real: bool = False,
    centered: bool = True,
    sensitivities: Any = None,
    isotropic: bool = False,
    max_iter: int = 200,
) -> np.ndarray:
    """Minimise ½‖Φx − y‖² + weight · Σ ‖∇x‖, the norm taken over the contrasts.

    ADMM. The quadratic subproblem is diagonal in Fourier space for one coil; with several a
    few CG steps from the last image solve it. Two or three dimensions.

    Parameters
    ----------
    kspace, mask, real, centered
        As for :func:`cofem.mri.reconstruct`; (L, H, W).
    sensitivities : array (coils, H, W) or (L, coils, H, W), optional
    weight : float
        λ, for images as they are (nothing is scaled).
    isotropic : bool
        Take the norm over the directions too. The default, each direction by itself,
        is the stronger baseline on the atlas of the benchmark.
    max_iter : int
        ADMM iterations, with ρ = 10 λ.

    Examples
    --------
    >>> from cofem.mri import nrmse, phantom, to_kspace
    >>> x = phantom((64, 64))
    >>> nrmse(joint_total_variation(to_kspace(x), weight=1e-5, real=True), x) < 1e-3
    True
    """
    if not weight > 0:
        raise ValueError(f"weight must be positive, got {weight!r}")
    data = checked_data(kspace, mask, sensitivities, real=real, centered=centered)
    shape, axes = data.mask.shape[1:], tuple(range(1, data.mask.ndim))
    rho = RHO * weight
    if data.n_sets > 1:
        raise ValueError("joint total variation takes one set of sensitivities")
    solver = _one_coil if data.sensitivities is None else _several_coils
    nearest = solver(data, real, rho)
    dtype = np.float64 if real else np.complex128
    split = np.zeros((len(shape), *data.mask.shape), dtype=dtype)
    dual = np.zeros_like(split)
    image = np.zeros(data.mask.shape, dtype=dtype)
    over = (0, 1) if isotropic else (1,)
    for _ in range(max_iter):
        image = nearest(rho * _divergence(split - dual, axes), image)
        total = _gradient(image, axes) + dual
        size = np.sqrt(np.sum(np.abs(total) ** 2, axis=over, keepdims=True))
        keep = np.maximum(1 - (weight / rho) / np.maximum(size, TINY), 0)
        split = total * keep
        dual = total - split
    return data.restored(image.reshape(len(image), -1))


def _one_coil(data: KSpace, real: bool, rho: float) -> Solver:
    """Solve (ΦᴴΦ + ρ∇ᵀ∇) x = Φᴴy + pull, exactly."""
    shape, axes = data.mask.shape[1:], tuple(range(1, data.mask.ndim))
    spectrum, y = data.mask.astype(float), data.kspace
    if real:
        spectrum = (spectrum + mirrored(spectrum, axes)) / 2
        y = (y + mirrored(y, axes).conj()) / 2
    half = slice(0, shape[-1] // 2 + 1) if real else slice(None)
    y, spectrum = y[..., half], spectrum[..., half]
    inverse = 1 / np.maximum(spectrum + rho * _laplacian(shape)[..., half], LEAST_EIGENVALUE)

    def solve(pull: np.ndarray, _: np.ndarray) -> np.ndarray:
        if real:
            k = (y + scipy.fft.rfftn(pull, axes=axes, norm="ortho")) * inverse
            return np.asarray(scipy.fft.irfftn(k, s=shape, axes=axes, norm="ortho"))
        k = (y + scipy.fft.fftn(pull, axes=axes, norm="ortho")) * inverse
        return np.asarray(scipy.fft.ifftn(k, axes=axes, norm="ortho"))

    return solve


def _several_coils(data: KSpace, real: bool, rho: float) -> Solver:
    """Solve the same by CG, preconditioned by what one ideal coil would need."""
    shape, axes = data.mask.shape[1:], tuple(range(1, data.mask.ndim))
    encoding = make_encoding(data.mask.astype(float), data.sensitivities, real)
    own: Any = encoding.adjoint(data.kspace)
    one = np.ones((len(own), 1))
    mean = data.mask.mean(axis=axes, keepdims=True) + rho * _laplacian(shape)[None]
    mean = np.concatenate([mean] * encoding.n_parts)

    def product(x: np.ndarray) -> np.ndarray:
        smooth = _divergence(_gradient(x.reshape(-1, *shape), axes), axes)
        return np.asarray(encoding.gram(x[None], one)[0] + rho * smooth.reshape(x.shape))

    def preconditioned(r: np.ndarray) -> np.ndarray:
        k = scipy.fft.fftn(r.reshape(-1, *shape), axes=axes) / mean
        return np.asarray(scipy.fft.ifftn(k, axes=axes).real.reshape(r.shape))

    def solve(pull: np.ndarray, start: np.ndarray) -> np.ndarray:
        x = _parts(start, encoding.n_parts)
        r = own + _parts(pull, encoding.n_parts) - product(x)
        z = preconditioned(r)
        p, size = z, np.sum(r * z)
        for _ in range(COIL_STEPS):
            if size <= 0:
                break
            q = product(p)
            step = size / np.sum(p * q)
            x, r = x + step * p, r - step * q
            z = preconditioned(r)
            size, old = np.sum(r * z), size
            p = z + size / old * p
        return encoding.assembled(x).reshape(start.shape)

    return solve


def _parts(x: np.ndarray, n_parts: int) -> np.ndarray:
    """Return contrasts as real images (I, P)."""
    flat = x.reshape(len(x), -1)
    return flat if n_parts == 1 else np.concatenate([flat.real, flat.imag])


def _gradient(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.stack([x - np.roll(x, 1, axis) for axis in axes])


def _divergence(g: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    parts = [g[i] - np.roll(g[i], -1, axis) for i, axis in enumerate(axes)]
    return np.asarray(sum(parts[1:], parts[0]))


def _laplacian(shape: tuple[int, ...]) -> np.ndarray:
    total = np.zeros(shape)
    for axis, side in enumerate(shape):
        wave = 2 - 2 * np.cos(2 * np.pi * np.arange(side) / side)
        total = total + wave.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total
