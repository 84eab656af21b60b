"""The passes of a CG step in plain torch, on any device: the oracle of the fused kernels."""

from __future__ import annotations

import math
from typing import Any

import torch

from cofem.backend.products import MaskedTransform, twiddles
from cofem.solvers.steps.cuda.state import State
from cofem.solvers.systems import Bulk

SLOTS = 1
"""Sums are complete: nothing is left in parts."""


class EagerPasses:
    """One CG step as a sequence of tensor operations.

    Parameters
    ----------
    product : MaskedTransform or Bulk
        ΦᴴΦ for rows (Q, D).
    """

    def __init__(self, product: MaskedTransform | Bulk) -> None:
        self._factors: Any = None
        self.load(product)

    def load(self, product: MaskedTransform | Bulk) -> None:
        """Take another product of the same kind and shape."""
        self._product = product

    def forget(self) -> None:
        """Nothing is kept."""

    @property
    def is_foreign(self) -> bool:
        """Whether the product is somebody else's function."""
        return isinstance(self._product, Bulk)

    def can_be_captured(self, like: Any) -> bool:
        """No: every operation is launched as it comes."""
        return False

    def slots(self, n: int) -> int:
        """In how many parts sums are left."""
        return SLOTS

    # -- passes ------------------------------------------------------------------------

    def step(self, s: State, keep: bool) -> None:
        """One step of every row that is not done."""
        now, before = s.total(s.rho_sums), s.rho
        finished = (s.done != 0) | (s.bad != 0) | (now <= s.goal)
        ratio = (now / before).sqrt().to(s.dtype)[:, None, :]
        unit = now.rsqrt().to(s.dtype)[:, None, :]
        turned = unit * (s.inverse[:, None] * s.r) + ratio * s.p
        s.p.copy_(torch.where(finished[:, None, :], s.p, turned))
        s.taken += 1
        if keep and int(s.taken) > 0:
            s.ratios[int(s.taken) - 1] = (now / before).reshape(-1)  # of the step before
        s.rho.copy_(torch.where(finished, before, now))
        s.done.copy_(finished)
        g = self._bulk(s, s.p)
        curvature = (s.diagonal[:, None] * s.p * s.p).sum(dim=1, dtype=torch.float64)
        curvature = curvature + (s.p * g).sum(dim=1, dtype=torch.float64)
        curvature = s.total(curvature[:, :, None])
        going = (s.done == 0) & (s.bad == 0)
        live = going & (curvature > 0)
        s.bad.copy_((s.bad != 0) | (going & ~live))
        length = 1 / torch.where(live, curvature, 1.0)
        gamma = (s.rho.sqrt() * length).to(s.dtype)[:, None, :]
        moves = live[:, None, :]
        s.x.copy_(torch.where(moves, s.x + gamma * s.p, s.x))
        g += s.diagonal[:, None] * s.p
        s.r.copy_(torch.where(moves, s.r - gamma * g, s.r))
        s.steps += live
        if keep:
            s.lengths[int(s.taken)] = torch.where(live, length, 0.0).reshape(-1)
        self.norm(s, s.r, s.inverse, s.rho_sums)

    def subtract_product(self, s: State) -> None:
        """R −= A X, and the sums of the new R."""
        size = s.sizes.to(s.dtype)[:, None, :]
        s.r -= size * self._bulk(s, s.x / size) + s.diagonal[:, None] * s.x
        self.norm(s, s.r, s.inverse, s.rho_sums)

    def norm(self, s: State, rows: Any, weights: Any, sums: Any) -> None:
        """Leave Σ weights |rows|² in ``sums``."""
        sums.zero_()
        squares = weights.double()[:, None] * rows.double() ** 2
        sums[..., 0] = squares.sum(dim=1)

    def mark_running(self, s: State, answer: Any) -> None:
        """Write into ``answer`` (rows,) how many lanes of each row still run."""
        answer[: s.rows].copy_((s.running() & ~(s.residuals() <= s.goal)).sum(dim=-1))

    # -- products ----------------------------------------------------------------------

    def _bulk(self, s: State, p: Any) -> Any:
        if isinstance(self._product, Bulk):
            flat = torch.view_as_complex(p) if s.lanes == 2 else p[:, :, 0]
            out = self._product.apply(flat, *self._product.inputs)
            return torch.view_as_real(out.contiguous()) if s.lanes == 2 else out[:, :, None]
        rows = torch.view_as_complex(p)
        of = _dct_gram if self._product.kind == "dct" else _fourier_gram
        return torch.view_as_real(of(rows, self._product, self._tables(s)))

    def _tables(self, s: State) -> Any:
        if self._factors is None:
            cosine, sine = (t.to(s.dtype) for t in twiddles(s.n, s.device))
            self._factors = torch.complex(cosine, sine)
        return self._factors


def _dct_gram(rows: Any, product: MaskedTransform, factor: Any) -> Any:
    """ΦᴴΦ of complex rows by two complex FFTs, no permutation (see the Triton kernels)."""
    n = rows.shape[-1]
    mirrored = torch.cat([torch.zeros_like(rows[:, :1]), rows[:, 1:].flip(-1)], dim=-1)
    z = factor * (rows - 1j * mirrored) / math.sqrt(2 * n)
    z[:, 0] *= math.sqrt(2)
    signal = torch.fft.ifft(z, norm="forward") * product.weights
    v = torch.fft.fft(signal)
    mirrored = torch.cat([v[:, :1], v[:, 1:].flip(-1)], dim=-1)
    out = (factor.conj() * v + factor * mirrored) * math.sqrt(0.5 / n)
    out[:, 0] *= math.sqrt(0.5)
    return out


def _fourier_gram(rows: Any, product: MaskedTransform, _: Any) -> Any:
    image = rows.reshape(-1, *product.shape)
    axes = tuple(range(1, image.ndim))
    spectrum = torch.fft.fftn(image, dim=axes, norm="ortho")
    spectrum = spectrum * product.weights.reshape(product.shape)
    return torch.fft.ifftn(spectrum, dim=axes, norm="ortho").reshape(rows.shape)
