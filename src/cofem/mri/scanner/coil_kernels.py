"""One pass over memory each for what an encoding with coils does beside its transforms (NumPy).

Images are (S, I, P) real, I = L or 2L; coil images (S, L, C, P) complex; coils (L, C, P).
"""

from __future__ import annotations

from typing import Any

from cofem.solvers.compiled import REORDERED, compiled


@compiled(**REORDERED)
def to_coils(x: Any, coils: Any, out: Any) -> None:
    """Out = coils ∘ image, the image put together from its parts."""
    n_contrasts, n_coils, n = coils.shape
    for s in range(x.shape[0]):
        for i in range(n_contrasts):
            for c in range(n_coils):
                if x.shape[1] == n_contrasts:
                    for j in range(n):
                        out[s, i, c, j] = x[s, i, j] * coils[i, c, j]
                    continue
                for j in range(n):
                    re, im, z = x[s, i, j], x[s, n_contrasts + i, j], coils[i, c, j]
                    out[s, i, c, j] = complex(re * z.real - im * z.imag, re * z.imag + im * z.real)


@compiled(**REORDERED)
def weigh(kspace: Any, mask: Any, factor: Any) -> None:
    """Multiply k-space (S, L, C, P) by factor (L,) and mask (L, P), in place."""
    for s in range(kspace.shape[0]):
        for i in range(kspace.shape[1]):
            for c in range(kspace.shape[2]):
                for j in range(kspace.shape[3]):
                    kspace[s, i, c, j] *= factor[i] * mask[i, j]


@compiled(**REORDERED)
def from_coils(images: Any, coils: Any, out: Any) -> None:
    """Out = Σ_c conj(coils) ∘ images, in the parts that ``out`` (S, I, P) has."""
    n_contrasts, n_coils, n = coils.shape
    out[:] = 0
    for s in range(images.shape[0]):
        for i in range(n_contrasts):
            for c in range(n_coils):
                for j in range(n):
                    z, w = coils[i, c, j], images[s, i, c, j]
                    out[s, i, j] += z.real * w.real + z.imag * w.imag
                if out.shape[1] > n_contrasts:
                    for j in range(n):
                        z, w = coils[i, c, j], images[s, i, c, j]
                        out[s, n_contrasts + i, j] += z.real * w.imag - z.imag * w.real
