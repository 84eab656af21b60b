"""The passes of a CG step by fused kernels, on CUDA."""

from __future__ import annotations

import math
from typing import Any

import torch

from cofem.backend import MaskedTransform
from cofem.backend.products import twiddles
from cofem.solvers.steps.cuda import kernels_dct
from cofem.solvers.steps.cuda import kernels_rows as kernels
from cofem.solvers.steps.cuda.capture import can_be_replayed
from cofem.solvers.steps.cuda.state import State
from cofem.solvers.systems import Bulk

Product = MaskedTransform | Bulk

BLOCK = 512
WARPS = 4


class FusedPasses:
    """One CG step: three kernels and the operator's product (see ``kernels_rows``).

    Parameters
    ----------
    product : MaskedTransform or Bulk
        ΦᴴΦ for rows (Q, D).
    """

    def __init__(self, product: Product) -> None:
        self._tables: Any = None
        self._weights: Any = None
        self._source: Any = None
        self._product: Product | None = None
        self._inputs: list[Any] = []
        self.load(product)

    def load(self, product: Product) -> None:
        """Take another product of the same kind and shape; its arrays keep their address."""
        self._product = product
        if isinstance(product, Bulk):
            if not self._inputs:
                self._inputs = [torch.empty_like(v) for v in product.inputs]
            for place, value in zip(self._inputs, product.inputs, strict=True):
                place.copy_(value)
            return
        if self._source is product.weights:
            return
        self._source = product.weights
        # Both FFTs are unscaled. The DCT's scale is in its twiddle factors.
        scale = 1.0 if product.kind == "dct" else 1.0 / math.prod(product.shape)
        if self._weights is None:
            self._weights = product.weights * scale
        else:
            torch.mul(product.weights, scale, out=self._weights)

    def forget(self) -> None:
        """Keep no reference to an operator of the caller's."""
        if isinstance(self._product, Bulk):
            self._product = None

    @property
    def is_foreign(self) -> bool:
        """Whether the product is a function that is not cofem's own."""
        return self._weights is None

    def can_be_captured(self, like: Any) -> bool:
        """Whether steps may become a graph; of a foreign product that has to be tried."""
        if not isinstance(self._product, Bulk):
            return True
        return can_be_replayed(self._multiplied, like)

    def slots(self, n: int) -> int:
        """In how many parts a row's sums are left: as many programs work on it.

        Measured on an H200: fewer leave it idle, more spend their time adding up.
        """
        return min(512, max(64, 1 << max(n // 2048 - 1, 0).bit_length()))

    # -- passes ------------------------------------------------------------------------

    def step(self, s: State, keep: bool) -> None:
        """One step of every row that is not done."""
        v = self._turn_and_multiply(s, keep)
        self._descend(s, s.p, v, residual=False, keep=keep)

    def subtract_product(self, s: State) -> None:
        """R −= A X, and the sums of the new R; ``sizes`` are powers of two, about X's norms."""
        self._descend(s, s.x, self._multiply_only(s, s.x), residual=True, keep=False)

    def mark_running(self, s: State, answer: Any) -> None:
        """Write into ``answer`` (rows,) how many lanes of each row still run."""
        kernels.mark_running[(s.rows,)](
            s.rho_sums, s.goal, s.done, s.bad, answer,
            SLOTS=s.slots, LANES=s.lanes, PAIRED=s.paired,
        )  # fmt: skip

    def norm(self, s: State, rows: Any, weights: Any, sums: Any) -> None:
        """Leave Σ weights |rows|² in ``sums``."""
        kernels.weighted_norm[self._grid(s)](
            rows, weights, sums, s.n, _tiles(s.n),
            SLOTS=s.slots, LANES=s.lanes, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip

    # -- the first half: search direction and product ------------------------------------

    def _turn_and_multiply(self, s: State, keep: bool) -> Any:
        if self._kind == "dct":
            z = self._enter(s, s.p, update=True)
            v = torch.fft.ifft(torch.view_as_complex(z), norm="forward")
            self._weigh(s, v, keep, record=True)
            return torch.fft.fft(v)
        kernels.turn[self._grid(s)](
            s.p, s.r, s.inverse, s.diagonal, s.rho_sums, s.rho, s.goal, s.done, s.bad, s.taken,
            s.diagonal_sums, s.n, _tiles(s.n), LANES=s.lanes, **self._constants(s),
        )  # fmt: skip
        if self._kind == "fourier":
            v = self._spectrum(s.p)
            # Of a pair of real images the spectra are mixed, and so are sums over them.
            self._weigh(s, v, keep, record=not s.paired)
            v = self._image(v)
            if not s.paired:
                return v
        else:
            v = self._foreign(s, s.p)
        numbers = torch.view_as_real(v) if s.lanes == 2 else v
        kernels.dot[self._grid(s)](
            numbers, s.p, s.operator_sums, s.rho_sums,
            s.rho, s.goal, s.done, s.bad, s.taken, s.ratios, s.n, numbers.stride(0), _tiles(s.n),
            LANES=s.lanes, RECORD=True, KEEP=keep, **self._constants(s),
        )  # fmt: skip
        return v

    def _multiply_only(self, s: State, rows: Any) -> Any:
        if self._kind == "dct":
            v = torch.view_as_complex(self._enter(s, rows, update=False))
            v = torch.fft.ifft(v, norm="forward")
            self._weigh(s, v, False, record=False)
            return torch.fft.fft(v)
        if self._kind == "fourier":
            size = s.sizes.to(s.dtype)[:, None, :]
            v = self._spectrum(rows / size if s.paired else rows)
            self._weigh(s, v, False, record=False)
            v = self._image(v)
            return torch.view_as_complex(torch.view_as_real(v) * size) if s.paired else v
        return self._foreign(s, rows)

    def _enter(self, s: State, rows: Any, update: bool) -> Any:
        cosine, sine = self._twiddles(s)
        z = torch.empty_like(rows)
        half = _tiles(s.n // 2 + 1)
        kernels_dct.turn_dct[self._grid(s)](
            rows, s.r, z, s.inverse, s.diagonal, cosine, sine, s.rho_sums, s.rho, s.goal, s.done,
            s.bad, s.taken, s.sizes, s.diagonal_sums, s.n, half,
            UPDATE=update, **self._constants(s),
        )  # fmt: skip
        return z

    def _weigh(self, s: State, v: Any, keep: bool, record: bool) -> None:
        kernels.weigh[self._grid(s)](
            torch.view_as_real(v), self._weights, s.operator_sums, s.rho_sums, s.rho, s.goal,
            s.done, s.bad, s.taken, s.ratios, s.n, _tiles(s.n),
            LANES=s.lanes, RECORD=record, KEEP=keep, **self._constants(s),
        )  # fmt: skip

    # -- the second half: the step ---------------------------------------------------------

    def _descend(self, s: State, p: Any, v: Any, residual: bool, keep: bool) -> None:
        v = torch.view_as_real(v) if s.lanes == 2 else v
        shared = {"RESIDUAL": residual, "KEEP": keep, **self._constants(s)}
        sums = (s.diagonal_sums, s.operator_sums, s.rho_sums, s.steps, s.taken, s.lengths)
        if self._kind == "dct":
            cosine, sine = self._twiddles(s)
            half = _tiles(s.n // 2 + 1)
            kernels_dct.descend_dct[self._grid(s)](
                s.x, s.r, p, v, s.inverse, s.diagonal, cosine, sine, s.rho, s.done, s.bad, *sums,
                s.sizes, s.n, half, **shared,
            )  # fmt: skip
            return
        kernels.descend[self._grid(s)](
            s.x, s.r, p, v, s.inverse, s.diagonal, s.rho, s.done, s.bad, *sums,
            s.n, v.stride(0), _tiles(s.n), LANES=s.lanes, **shared,
        )  # fmt: skip

    # -- small things ------------------------------------------------------------------------

    @property
    def _kind(self) -> str:
        return self._product.kind if isinstance(self._product, MaskedTransform) else "foreign"

    def _grid(self, s: State) -> tuple[int, int]:
        # Rows run fastest, so that programs side by side share the weights in the cache.
        return (s.rows, s.slots)

    def _constants(self, s: State) -> dict[str, Any]:
        kind = kernels.number_type(s.dtype == torch.float64)
        return {
            "SLOTS": s.slots, "PAIRED": s.paired, "BLOCK": BLOCK, "TYPE": kind,
            "num_warps": WARPS,
        }  # fmt: skip

    def _twiddles(self, s: State) -> Any:
        if self._tables is None:
            half = s.n // 2 + 1
            cosine, sine = (t[:half] * math.sqrt(0.5 / s.n) for t in twiddles(s.n, s.device))
            cosine[0] = math.sqrt(0.25 / s.n)
            self._tables = (cosine.to(s.dtype), sine.to(s.dtype))
        return self._tables

    def _images(self, v: Any) -> tuple[Any, tuple[int, ...]]:
        product = self._product
        assert isinstance(product, MaskedTransform)
        image = v.reshape(-1, *product.shape)
        return image, tuple(range(1, image.ndim))

    def _spectrum(self, p: Any) -> Any:
        image, axes = self._images(torch.view_as_complex(p))
        return torch.fft.fftn(image, dim=axes).reshape(p.shape[:2])

    def _image(self, v: Any) -> Any:
        image, axes = self._images(v)
        return torch.fft.ifftn(image, dim=axes, norm="forward").reshape(v.shape)

    def _foreign(self, s: State, rows: Any) -> Any:
        return self._multiplied(torch.view_as_complex(rows) if s.lanes == 2 else rows[:, :, 0])

    def _multiplied(self, rows: Any) -> Any:
        assert isinstance(self._product, Bulk)
        found = self._product.apply(rows, *self._inputs)
        # Rows cut out of longer ones, as of a padded transform, are read where they are.
        apart = found.stride(-1) == 1 and found.stride(0) >= found.shape[-1]
        return found if apart else found.contiguous()


def _tiles(length: int) -> int:
    return -(-length // BLOCK)
