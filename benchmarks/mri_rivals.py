"""What cofem's MRI is measured against, each with the λ that is best for the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pywt

from cofem import mri
from mri_data import Truth
from mri_scores import error_percent

ITERATIONS = 150


def zero_filled(kspace: np.ndarray, maps: np.ndarray | None, n_axes: int) -> np.ndarray:
    """Return the inverse transform, coils combined."""
    images = mri.to_image(kspace, n_axes=n_axes)
    return images if maps is None else np.sum(np.conj(maps) * images, axis=1)


def best(
    solver: Callable[[float], np.ndarray], grid: list[float], truth: Truth
) -> tuple[np.ndarray, float]:
    """Return the image whose λ is best for the truth; the grid is left where its end is best."""
    found = {weight: solver(weight) for weight in grid}
    step = grid[1] / grid[0]
    for _ in range(4):
        order = sorted(found)
        errors = [error_percent(found[w], truth) for w in order]
        at = int(np.argmin(errors))
        if at not in (0, len(order) - 1):
            break
        weight = order[0] / step if at == 0 else order[-1] * step
        found[weight] = solver(weight)
    weight = min(found, key=lambda w: error_percent(found[w], truth))
    return found[weight], weight


def weights(sigma: float) -> list[float]:
    """Return the λ to begin with: the noise decides, or how exact data without noise are."""
    return [1e-4, 3e-4] if sigma == 0 else [0.2 * sigma, 0.35 * sigma]


def total_variation(
    kspace: np.ndarray, mask: np.ndarray, maps: np.ndarray | None, real: bool, weight: float
) -> np.ndarray:
    """Joint total variation by ADMM."""
    return mri.joint_total_variation(
        kspace, mask, weight=weight, real=real, sensitivities=maps, max_iter=ITERATIONS
    )


def group_wavelets(
    kspace: np.ndarray, mask: np.ndarray, maps: np.ndarray | None, real: bool, weight: float
) -> np.ndarray:
    """½‖Φx − y‖² + λ Σ ‖(Wx)_j‖ over contrasts: FISTA with Daubechies 4 and random shifts."""
    axes = tuple(range(1, mask.ndim))
    sides = mask.shape[1:]
    random = np.random.default_rng(0)
    level = min(4, pywt.dwtn_max_level(sides, "db4"))
    kept = mask if maps is None else mask[:, None]

    def gradient(x: np.ndarray) -> np.ndarray:
        images = x if maps is None else x[:, None] * maps
        residual = kept * mri.to_kspace(images, n_axes=len(axes)) - kspace
        back = zero_filled(residual, maps, len(axes))
        return back.real if real else back

    def shrunk(x: np.ndarray) -> np.ndarray:
        by = tuple(int(random.integers(16)) for _ in axes)
        moved = np.roll(x, by, axes)
        parts = pywt.wavedecn(moved, "db4", mode="periodization", level=level, axes=axes)
        coefficients, slices = pywt.coeffs_to_array(parts, axes=axes)
        size = np.sqrt(np.sum(np.abs(coefficients) ** 2, axis=0, keepdims=True))
        keep = np.maximum(1 - weight / np.maximum(size, 1e-30), 0)
        coarse = tuple(slice(0, n) for n in parts[0].shape[1:])
        keep[(slice(None), *coarse)] = 1
        parts = pywt.array_to_coeffs(coefficients * keep, slices, output_format="wavedecn")
        out = pywt.waverecn(parts, "db4", mode="periodization", axes=axes)
        return np.roll(out[(slice(None), *[slice(0, n) for n in sides])], [-b for b in by], axes)

    x = zero_filled(kspace, maps, len(axes))
    x = x.real if real else x
    ahead, momentum = x, 1.0
    for _ in range(ITERATIONS):
        new = shrunk(ahead - gradient(ahead))
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / following * (new - x)
        x, momentum = new, following
    return x


def sigpy_wavelets(kspace: np.ndarray, maps: np.ndarray, weight: float) -> np.ndarray:
    """SigPy's ℓ1-wavelet reconstruction, one contrast after the other."""
    from sigpy.mri.app import L1WaveletRecon

    return np.stack([L1WaveletRecon(y, maps, lamda=weight, show_pbar=False).run() for y in kspace])
