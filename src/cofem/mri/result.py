"""What a reconstruction gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Sampler = Callable[[int, int], np.ndarray]
"""From a number and a seed to draws of the images minus their mean, in the user's units."""


@dataclass(frozen=True)
class Reconstruction:
    """The posterior of the images, in the user's units.

    Attributes
    ----------
    image : array (L, H, W)
        The posterior mean; complex unless ``real=True``.
    std : array (L, H, W)
        Posterior standard deviation, √E|x − mean|².
    precision : array (H, W)
        The edge map that the contrasts share: one over the mean prior variance of the
        gradient at a pixel. Small on edges. (Zeros where nothing had to be learned.)
    noise_std : array (L,)
        √E|ε|² of the complex noise on k-space, learned or given.
    history : dict of lists
        iteration, change, noise_std, cg_steps, products, seconds.
    converged : bool
    model : str
        "image", "gradient", or "none" where k-space was fully sampled.

    Examples
    --------
    >>> from cofem import mri
    >>> x = mri.phantom((32, 32), n_contrasts=1)
    >>> found = mri.reconstruct(mri.to_kspace(x), real=True)
    >>> found.image.shape, found.model, bool(np.allclose(found.image, x))
    ((1, 32, 32), 'none', True)
    """

    image: np.ndarray
    std: np.ndarray
    precision: np.ndarray
    noise_std: np.ndarray
    history: dict[str, list[Any]]
    converged: bool
    model: str
    _sampler: Sampler = field(repr=False)

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Draw ``n`` images from the posterior, (n, L, H, W)."""
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        return self.image + self._sampler(int(n), int(seed))

    def __repr__(self) -> str:
        shape = " × ".join(str(side) for side in self.image.shape)
        noise = ", ".join(f"{value:.3g}" for value in self.noise_std)
        return (
            f"Reconstruction({shape}, model={self.model!r}, noise_std=[{noise}], "
            f"iterations={len(self.history['iteration'])}, converged={self.converged})"
        )
