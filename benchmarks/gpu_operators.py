"""A CG step of every kind of operator against its own bare product and the vectors' passes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch

from cofem import operators
from cofem.operators import LinearOperator
from gpu_steps import PASSES, fused_steps, graphed, milliseconds
from gpu_tables import DEVICE, empty_cache, pick, synchronize, table

Q = 5  # the mean and the default four probes
ALLOWED = 1.5
POWERS = (12, 15, 18, 20)


def of_operators(scale: str) -> str:
    """Return the table: each operator at each size that fits."""
    rows = []
    for name, make in OPERATORS.items():
        for power in pick(scale, POWERS, (12, 15), (8,)):
            with contextlib.suppress(TooLargeError):
                rows.append(_row(name, make, 1 << power))
        empty_cache()
    columns = ("operator", "D", "bare product", "one pass", "product and passes", "CG step",
               "ratio", f"within {ALLOWED}", "graph")  # fmt: skip
    return (
        f"## One CG step of every kind of operator, {Q} systems, single precision (ms)\n\n"
        f"Bare product: ΦᴴΦ of the batch, as a graph where it can be one. Passes: {PASSES} over "
        "the batch at copy speed. The step is the one that a fit takes.\n\n" + table(columns, rows)
    )


def _row(name: str, make: Callable[[int], tuple[LinearOperator, Any]], D: int) -> list[str]:
    operator, dtype = make(D)
    rhs = torch.randn(Q, D, device=DEVICE, dtype=dtype)
    copy = torch.empty_like(rhs)
    one_pass = milliseconds(graphed(lambda: copy.copy_(rhs))) / 2  # it reads and writes
    bare = milliseconds(_recorded(lambda: operator.gram(rhs)))
    _, step, is_graph = fused_steps(operator, rhs)
    floor = bare + PASSES * one_pass
    return [name, f"2^{D.bit_length() - 1}", f"{bare:.4f}", f"{one_pass:.4f}", f"{floor:.4f}",
            f"{step:.4f}", f"{step / floor:.2f}", "yes" if step <= ALLOWED * floor else "NO",
            "yes" if is_graph else "no"]  # fmt: skip


def _recorded(work: Callable[[], Any]) -> Callable[[], Any]:
    try:
        return graphed(work)
    except Exception:
        synchronize()
        return work


class TooLargeError(Exception):
    """A matrix of that size is not worth its memory."""


def _dct(D: int) -> tuple[LinearOperator, Any]:
    rows = np.sort(np.random.default_rng(0).choice(D, D // 3, replace=False))
    return operators.DCT(D, rows), torch.float32


def _image(D: int) -> tuple[int, int]:
    side = 1 << (D.bit_length() // 2)
    return side, D // side


def _fourier(D: int) -> tuple[LinearOperator, Any]:
    shape = _image(D)
    mask = np.random.default_rng(0).random(shape) < 0.4
    return operators.Fourier(shape, mask), torch.complex64


def _fourier_3d(D: int) -> tuple[LinearOperator, Any]:
    shape = (16, *_image(D // 16))
    mask = np.random.default_rng(0).random(shape) < 0.4
    return operators.Fourier(shape, mask), torch.complex64


def _convolution(D: int) -> tuple[LinearOperator, Any]:
    return operators.Convolution(0.96 ** np.arange(200), D), torch.float32


def _dense(D: int) -> tuple[LinearOperator, Any]:
    if D > 1 << 15:
        raise TooLargeError
    return operators.Dense(torch.randn(D // 4, D, device=DEVICE) / D**0.5), torch.float32


def _sparse(D: int) -> tuple[LinearOperator, Any]:
    random = np.random.default_rng(0)
    n, each = D // 2, 10
    index = random.integers(0, D, n * each)
    entries = (random.standard_normal(n * each).astype(np.float32), index)
    matrix = scipy.sparse.csr_array((*entries, np.arange(0, n * each + 1, each)), shape=(n, D))
    return operators.Sparse(matrix), torch.float32


def _wavelet(D: int) -> tuple[LinearOperator, Any]:
    return operators.Wavelet(_image(D), "db4"), torch.float32


def _composition(D: int) -> tuple[LinearOperator, Any]:
    return _dct(D)[0] @ operators.Wavelet((D,), "db4").H, torch.float32


def _function(D: int) -> tuple[LinearOperator, Any]:
    weights = torch.rand(D // 2 + 1, device=DEVICE)

    def blur(x: Any) -> Any:
        return torch.fft.irfft(weights * torch.fft.rfft(x), n=D)

    return operators.from_functions(blur, blur, (D, D), np.float32), torch.float32


OPERATORS = {
    "DCT": _dct,
    "Fourier 2-D": _fourier,
    "Fourier 3-D": _fourier_3d,
    "Convolution": _convolution,
    "Dense, N = D/4": _dense,
    "Sparse, ten entries a row": _sparse,
    "Wavelet 2-D": _wavelet,
    "DCT @ Wavelet.H": _composition,
    "a torch function": _function,
}
