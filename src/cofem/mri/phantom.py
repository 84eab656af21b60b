"""A multi-contrast head drawn by the code, for those who have no data at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Ellipses of the head: tissue, centre (x, y), half axes, angle in degrees. Later ones lie
# on top. Made up for this library; no anatomy was copied.
_ELLIPSES = (
    ("skin", 0.0, 0.0, 0.74, 0.93, 0),
    ("bone", 0.0, 0.0, 0.70, 0.89, 0),
    ("fluid", 0.0, 0.0, 0.65, 0.84, 0),
    ("grey", 0.0, 0.01, 0.62, 0.81, 0),
    ("white", -0.27, 0.05, 0.25, 0.62, 8),
    ("white", 0.27, 0.05, 0.25, 0.62, -8),
    ("grey", -0.42, 0.32, 0.10, 0.16, 25),
    ("grey", 0.42, 0.32, 0.10, 0.16, -25),
    ("grey", -0.44, -0.22, 0.08, 0.20, -12),
    ("grey", 0.44, -0.22, 0.08, 0.20, 12),
    ("grey", -0.16, -0.05, 0.09, 0.15, 0),
    ("grey", 0.16, -0.05, 0.09, 0.15, 0),
    ("fluid", -0.09, 0.18, 0.06, 0.22, 18),
    ("fluid", 0.09, 0.18, 0.06, 0.22, -18),
    ("fluid", 0.0, -0.30, 0.03, 0.10, 0),
    ("lesion", 0.30, 0.42, 0.06, 0.05, 30),
    ("lesion", -0.22, -0.42, 0.035, 0.035, 0),
)
_TISSUES = ("skin", "bone", "fluid", "grey", "white", "lesion")
# Proton density, T2-weighted, T1-weighted, and how a further contrast would look.
_BRIGHTNESS = np.array(
    [
        [0.60, 0.10, 0.95, 0.80, 0.65, 0.85],
        [0.30, 0.05, 0.90, 0.50, 0.32, 0.75],
        [0.75, 0.08, 0.18, 0.50, 0.80, 0.40],
        [0.45, 0.05, 0.05, 0.62, 0.48, 0.90],
    ]
)


def phantom(
    shape: Sequence[int] = (128, 128),
    n_contrasts: int = 3,
    *,
    complex_phase: bool = False,
    texture: float = 0.02,
    seed: int = 0,
) -> np.ndarray:
    """Draw a head of several tissues in several contrasts.

    Pixels at a boundary are averages over 4 × 4 points, tissues shade slowly, and a faint
    texture keeps the picture from being piecewise constant, which would be too easy.

    Parameters
    ----------
    shape : (H, W)
    n_contrasts : int
        1 to 4: proton density, T2, T1, and a fourth.
    complex_phase : bool
        Give every contrast a smooth phase of its own.
    texture : float
        Size of the shading and texture beside the tissue's brightness.
    seed : int
        Of the texture and the phase.

    Returns
    -------
    array (n_contrasts, H, W), float64 (complex128 with a phase), between 0 and about 1

    Examples
    --------
    >>> phantom((64, 64)).shape, phantom((64, 64), complex_phase=True).dtype
    ((3, 64, 64), dtype('complex128'))
    """
    if len(shape) != 2 or min(shape) < 8:
        raise ValueError(f"shape must be (H, W) of at least 8 × 8, got {tuple(shape)}")
    if not 1 <= n_contrasts <= len(_BRIGHTNESS):
        raise ValueError(f"n_contrasts must be between 1 and {len(_BRIGHTNESS)}")
    height, width = (int(side) for side in shape)
    fractions = _tissue_fractions(height, width)
    random = np.random.default_rng(seed)
    images = np.einsum("ct,thw->chw", _BRIGHTNESS[:n_contrasts], fractions)
    shading = np.stack([_smooth_field(height, width, 3, random) for _ in range(n_contrasts)])
    fine = np.stack([_smooth_field(height, width, 24, random) for _ in range(n_contrasts)])
    images = images * (1 + texture * (2 * shading + fine))
    if complex_phase:
        phase = np.stack([_smooth_field(height, width, 2, random) for _ in range(n_contrasts)])
        return np.asarray(images * np.exp(1j * phase))
    return np.asarray(images)


def _tissue_fractions(height: int, width: int, fine: int = 4) -> np.ndarray:
    y = (np.arange(height * fine) + 0.5) / (height * fine) * 2 - 1
    x = (np.arange(width * fine) + 0.5) / (width * fine) * 2 - 1
    label = np.full((height * fine, width * fine), -1, dtype=np.int64)
    for tissue, cx, cy, a, b, degrees in _ELLIPSES:
        turn = np.deg2rad(degrees)
        u, v = x[None, :] - cx, -y[:, None] - cy
        along = u * np.cos(turn) + v * np.sin(turn)
        across = v * np.cos(turn) - u * np.sin(turn)
        label[(along / a) ** 2 + (across / b) ** 2 <= 1] = _TISSUES.index(tissue)
    of_each = np.stack([label == index for index in range(len(_TISSUES))]).astype(float)
    cells = of_each.reshape(len(_TISSUES), height, fine, width, fine)
    return np.asarray(cells.mean(axis=(2, 4)))


def _smooth_field(height: int, width: int, waves: int, random: np.random.Generator) -> np.ndarray:
    """Return a random field of unit size with about ``waves`` waves across."""
    ky, kx = np.fft.fftfreq(height, 1 / height), np.fft.fftfreq(width, 1 / width)
    low = np.exp(-0.5 * (ky[:, None] ** 2 + kx[None, :] ** 2) / waves**2)
    field = np.fft.ifft2(np.fft.fft2(random.standard_normal((height, width))) * low).real
    return np.asarray(field / field.std())
