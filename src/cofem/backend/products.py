"""Products ΦᴴΦ that the solver can fuse into its own passes over memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem.backend.arrays import Array


@dataclass(frozen=True, eq=False)
class MaskedTransform:
    """ΦᴴΦ = Tᴴ diag(weights) T with an orthonormal transform T.

    Attributes
    ----------
    kind : {"dct", "fourier"}
        T: the inverse DCT of a row, or the n-D Fourier transform of an image.
    shape : tuple of int
        The image; a DCT has one axis.
    weights : array (n,)
        How often each sample of T's output was measured. For the DCT in the order
        of :func:`even_odd`, in which the transform is a bare FFT: the permutation
        and its inverse cancel inside the product.
    real : bool
        Of a Fourier transform: the image is real. Then a frequency and its negative must
        have the same weight.
    """

    kind: str
    shape: tuple[int, ...]
    weights: Array
    real: bool = False

    @property
    def pairs_real_rows(self) -> bool:
        """Whether two real rows may travel as one complex row: ΦᴴΦ is a real matrix."""
        return self.kind == "dct" or self.real


def even_odd(x: np.ndarray) -> np.ndarray:
    """Return the even entries, then the odd ones backwards (Makhoul 1980).

    Examples
    --------
    >>> even_odd(np.arange(5))
    array([0, 2, 4, 3, 1])
    """
    return np.concatenate([x[::2], x[1::2][::-1]])


def twiddles(n: int, device: Any) -> tuple[Any, Any]:
    """Cosine and sine of πk/2n for k < n, as float64 tensors."""
    import torch

    angle = torch.arange(n, dtype=torch.float64, device=device) * (np.pi / (2 * n))
    return torch.cos(angle), torch.sin(angle)
