"""Random numbers in any library, reproducible from one seed."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from cofem.backend.arrays import Array, from_numpy, is_complex, namespace, real_dtype


def seed_from(*words: int) -> int:
    """Return a seed that depends on all of these numbers, and differs where one of them does.

    Examples
    --------
    >>> seed_from(0, 1) == seed_from(0, 1), seed_from(0, 1) == seed_from(1, 0)
    (True, False)
    """
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


class Random:
    """Random draws in any library, reproducible from one seed.

    ``Random(seed, *stream)``: different streams are independent, so that the
    draws of one iteration do not depend on how many were made before.
    """

    def __init__(self, seed: int, *stream: int) -> None:
        self._sequence = np.random.SeedSequence([seed, *stream])
        self._numpy = np.random.Generator(np.random.SFC64(self._sequence))
        self._torch: Any = None

    def signs(self, shape: tuple[int, ...], like: Array) -> Array:
        """Rademacher signs (unit-modulus numbers if ``like`` is complex)."""
        if is_complex(like):
            return self._phases(shape, like)
        if compat.is_torch_array(like):
            import torch

            bits = torch.empty(shape, dtype=like.dtype, device=like.device)
            bits.random_(0, 2, generator=self._torch_generator(like))
            return torch.rsub(bits, -1, alpha=-2)  # 2 bits − 1, in one pass
        xp = namespace(like)
        kind = np.float32 if like.dtype == xp.float32 else np.float64
        out: Any = self.bits(shape).astype(kind)
        out *= 2
        out -= 1
        return from_numpy(out, like)

    def bits(self, shape: tuple[int, ...]) -> np.ndarray:
        """Zeros and ones on the host, from which :meth:`signs` makes −1 and 1."""
        size = int(np.prod(shape))
        bytes_ = self._numpy.integers(0, 256, -(-size // 8), dtype=np.uint8)
        return np.unpackbits(bytes_, count=size).reshape(shape)

    def _phases(self, shape: tuple[int, ...], like: Array) -> Array:
        # Uniform on the circle: E p = 0 and E p² = 0, so the estimate is unbiased
        # for Hermitian matrices and circular.
        xp = namespace(like)
        angle = self.uniform(shape, like) * (2 * np.pi)
        return xp.astype(xp.cos(angle) + 1j * xp.sin(angle), like.dtype)

    def uniform(self, shape: tuple[int, ...], like: Array) -> Array:
        """Uniform draws on [0, 1), real, in the precision of ``like``."""
        return self._drawn("rand", self._numpy.random, shape, like)

    def normal(self, shape: tuple[int, ...], like: Array) -> Array:
        """Draw standard normals, circular with E|x|² = 1 if ``like`` is complex."""
        xp = namespace(like)
        if is_complex(like):
            half = self._real_normal((2, *shape), like)
            return xp.astype((half[0, ...] + 1j * half[1, ...]) * 0.5**0.5, like.dtype)
        return self._real_normal(shape, like)

    def _real_normal(self, shape: tuple[int, ...], like: Array) -> Array:
        return self._drawn("randn", self._numpy.standard_normal, shape, like)

    def _drawn(self, of_torch: str, of_numpy: Any, shape: tuple[int, ...], like: Array) -> Array:
        """Call torch's function of that name for its arrays, NumPy's for all others."""
        xp = namespace(like)
        dtype = real_dtype(like.dtype, xp)
        if compat.is_torch_array(like):
            import torch

            draw = getattr(torch, of_torch)
            return draw(
                shape, generator=self._torch_generator(like), device=like.device, dtype=dtype
            )
        kind = np.float32 if dtype == xp.float32 else np.float64
        return from_numpy(of_numpy(shape, dtype=kind), like)

    def _torch_generator(self, like: Array) -> Any:
        if self._torch is None:
            import torch

            self._torch = torch.Generator(device=like.device)
            self._torch.manual_seed(int(self._sequence.generate_state(1, np.uint64)[0] >> 1))
        return self._torch
