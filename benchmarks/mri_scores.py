"""How good a reconstruction and its error bars are, by region."""

from __future__ import annotations

import math

import numpy as np
from scipy import ndimage

from cofem import mri
from mri_data import FAINT, Truth

SSIM_WINDOW = 7
REAL_95, COMPLEX_95 = 1.959964, math.sqrt(-math.log(0.05))


def regions(truth: Truth) -> dict[str, np.ndarray]:
    """Return object, its edges and interior, and the background, boolean (*shape).

    The object is what any contrast shows above a twentieth of its brightest; edges are the
    fifth of it where the gradient is largest, and what touches them.
    """
    size = np.abs(truth.images)
    bright = size > 0.05 * size.max(axis=tuple(range(1, size.ndim)), keepdims=True)
    inside = ndimage.binary_closing(bright.any(axis=0), iterations=2)
    slope = np.sqrt(sum(ndimage.gaussian_gradient_magnitude(x, 0.7) ** 2 for x in size))
    edges = inside & (slope >= np.quantile(slope[inside], 0.8))
    return {
        "object": inside,
        "edges": edges,
        "interior": inside & ~edges,
        "background": ~ndimage.binary_dilation(inside, iterations=2),
    }


def ssim(image: np.ndarray, truth: np.ndarray) -> float:
    """Return the structural similarity of magnitudes, the mean over contrasts."""
    pairs = zip(np.abs(image), np.abs(truth), strict=True)
    return float(np.mean([_similarity(a, b, b.max()) for a, b in pairs]))


def _similarity(x: np.ndarray, y: np.ndarray, bright: float) -> float:
    """Wang et al. 2004, in windows of 7 × 7, as scikit-image has it; its border is left out."""
    n, side = SSIM_WINDOW**x.ndim, SSIM_WINDOW // 2

    def mean(z: np.ndarray) -> np.ndarray:
        return np.asarray(ndimage.uniform_filter(z, SSIM_WINDOW))

    mx, my, unbiased = mean(x), mean(y), n / (n - 1)
    var_x, var_y = unbiased * (mean(x * x) - mx**2), unbiased * (mean(y * y) - my**2)
    both = unbiased * (mean(x * y) - mx * my)
    c1, c2 = (0.01 * bright) ** 2, (0.03 * bright) ** 2
    ratio = (2 * mx * my + c1) * (2 * both + c2) / ((mx**2 + my**2 + c1) * (var_x + var_y + c2))
    return float(ratio[(slice(side, -side),) * x.ndim].mean())


def bar_scores(image: np.ndarray, std: np.ndarray, truth: Truth) -> dict[str, float]:
    """Return coverage by region, error over std, and the correlation of std with |error|."""
    error = np.abs(image - truth.images)
    level = REAL_95 if truth.real else COMPLEX_95
    covered = error <= level * std
    places = regions(truth)
    scores = {
        name: float(covered[:, where].mean()) for name, where in places.items() if where.any()
    }
    inside = places["object"]
    scores["err/std"] = float(
        math.sqrt(np.mean(error[:, inside] ** 2) / np.mean(std[:, inside] ** 2))
    )
    scores["corr"] = float(
        np.mean([np.corrcoef(s[inside], e[inside])[0, 1] for s, e in zip(std, error, strict=True)])
    )
    scores["corr if exact"] = float(np.mean([exact_correlation(s[inside]) for s in std]))
    outside = places["background"]
    if outside.any():
        sizes = (float(np.mean(x[:, outside] ** 2)) for x in (std, error))
        scores["background std/err"] = math.sqrt(next(sizes) / max(next(sizes), 1e-300))
    for name, where in truth.lesions.items():
        scores[f"{name} cov"] = float(covered[where].mean())
    return scores


def exact_correlation(std: np.ndarray) -> float:
    """Return the correlation of std with |error| that normal errors of exactly this std have.

    E|e| = √(2/π) s, so cov(s, |e|) = √(2/π) var s, and var |e| = E s² − (2/π) (E s)².
    """
    share = 2 / math.pi
    mean, square = float(std.mean()), float(np.mean(std**2))
    return math.sqrt(share) * float(std.std()) / math.sqrt(max(square - share * mean**2, 1e-300))


def kept_contrast(image: np.ndarray, truth: Truth) -> dict[str, float]:
    """Return how much of the lesions' contrast is left: one is all of it.

    Of drawn lesions the part of their shape in what was found beside the images without
    them; of real ones their mean above a ring around them, beside the same of the truth.
    """
    scores = {}
    for name, where in truth.lesions.items():
        found, true = np.abs(image), np.abs(truth.images)
        if truth.without is not None:
            amplitude = FAINT[name][1]
            kept = (found - np.abs(truth.without))[where].mean() / amplitude
        else:
            flat = where.any(axis=0)
            ring = ndimage.binary_dilation(flat, iterations=4)
            ring &= ~ndimage.binary_dilation(flat, iterations=1)
            contrasts = [x[:, flat].mean(axis=1) - x[:, ring].mean(axis=1) for x in (found, true)]
            kept = np.sum(contrasts[0] * contrasts[1]) / np.sum(contrasts[1] ** 2)
        scores[f"{name} kept"] = float(kept)
    return scores


def error_percent(image: np.ndarray, truth: Truth) -> float:
    """Return the NRMSE in %."""
    return 100 * mri.nrmse(image, truth.images)
