"""Nothing is missing: the inverse transform, and the noise that it carries."""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Random
from cofem.mri.image.options import HISTORY
from cofem.mri.result import Reconstruction
from cofem.mri.scanner.coil_encoding import make_encoding
from cofem.mri.scanner.measured import KSpace
from cofem.mri.scanner.mirror import mirrored
from cofem.mri.scanner.noise import noise_ceiling


def inverse_transform(data: KSpace, real: bool, noise_std: np.ndarray | None) -> Reconstruction:
    """Return the inverse transform, the least-squares combination of coils."""
    encoding = make_encoding(data.mask.astype(float), data.sensitivities, real)
    seen = backend.to_numpy(encoding.diagonal())[: len(data.mask)]
    seen = np.broadcast_to(seen, (len(data.mask), int(np.prod(data.shape))))
    weight = np.divide(1.0, seen, out=np.zeros_like(seen), where=seen > 0)
    image = encoding.assembled(backend.to_numpy(encoding.adjoint(data.kspace))) * weight
    noise = estimated_noise(data, real) if noise_std is None else noise_std
    # A real image keeps the real half of the noise only.
    std = noise[:, None] * np.sqrt(weight / (2 if real else 1))

    def sampler(number: int, seed: int) -> np.ndarray:
        like = np.empty(0, dtype=np.float64 if real else np.complex128)
        white = Random(seed, 1).normal((number, *std.shape), like)
        return data.restored(white * std)

    return Reconstruction(
        image=data.handed_back(data.restored(image)),
        std=data.handed_back(data.restored(std)),
        precision=data.handed_back(np.zeros(data.shape)),
        noise_std=noise,
        history={name: [] for name in HISTORY},
        converged=True,
        model="none",
        _sampler=sampler,
        message="k-space is fully sampled: the inverse transform",
    )


def estimated_noise(data: KSpace, real: bool) -> np.ndarray:
    """Estimate the noise from k-space alone, (L,).

    For one coil and real images, samples and their mirror images differ by noise and
    nothing else. Otherwise the median power of the tenth of the samples that lie farthest
    out: an upper bound, since what the image has there is counted as noise.
    """
    axes = tuple(range(-len(data.shape), 0))
    if real and data.sensitivities is None:
        both = data.mask & mirrored(data.mask, axes)
        difference = np.abs(data.kspace - mirrored(data.kspace, axes).conj()) ** 2
        pairs = both.sum(axis=axes)
        if pairs.min() >= 100:
            return np.asarray(np.sqrt((difference * both).sum(axis=axes) / pairs / 2))
    return noise_ceiling(data)
