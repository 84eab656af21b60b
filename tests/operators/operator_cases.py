"""One table of operators with matrices built without them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
from operator_tools import (
    conv_matrix,
    dct_matrix,
    difference_matrix,
    fourier_matrix,
    np_pad,
    on_rows,
    smoothing_matrix,
    wavelet_matrix,
    without_constant,
)

from cofem import operators as ops
from cofem.operators.centred import Centred
from cofem.operators.row_weights import scaled_rows

rng = np.random.default_rng(7)
DTYPES = ("float32", "float64", "complex64", "complex128")


@dataclass(frozen=True)
class Case:
    """An operator, its matrix, and whether any array library can apply it."""

    make: Callable[[], ops.LinearOperator]
    matrix: Callable[[], np.ndarray]
    everywhere: bool = True


A = rng.standard_normal((7, 12))
TALL = rng.standard_normal((12, 7))
C = rng.standard_normal((7, 12)) + 1j * rng.standard_normal((7, 12))
S = scipy.sparse.random_array((9, 14), density=0.3, rng=rng)
MASK = rng.random((4, 6)) < 0.5
ROWS = np.array([3, 0, 9])
REPEATED = np.array([3, 0, 9, 3, 3, 9])
LONG = rng.standard_normal(30)
SHORT = rng.standard_normal(5)
COMPLEX = rng.standard_normal(4) + 1j * rng.standard_normal(4)
DECAY = 0.6 ** np.arange(700) * np.cos(np.arange(700))
MIDDLE = rng.standard_normal(300) / 300
WEIGHTS = rng.standard_normal(5) + 1j * rng.standard_normal(5)
idct = functools.partial(scipy.fft.idct, norm="ortho")


def ar(coefficients: tuple[float, ...], n: int) -> np.ndarray:
    a = np.append(1.0, -np.asarray(coefficients))
    return on_rows(lambda eye: scipy.signal.lfilter([1.0], a, eye, axis=-1), n)


def wrapped() -> ops.LinearOperator:
    return ops.as_operator(scipy.sparse.linalg.aslinearoperator(A))


CASES: dict[str, Case] = {
    "dense": Case(lambda: ops.Dense(A), lambda: A),
    "dense-tall": Case(lambda: ops.Dense(TALL), lambda: TALL),
    "dense-complex": Case(lambda: ops.Dense(C), lambda: C),
    "dense-complex-tall": Case(lambda: ops.Dense(C.T.copy()), lambda: C.T),
    "sparse": Case(lambda: ops.Sparse(S), S.toarray, everywhere=False),
    "sparse-complex": Case(lambda: ops.Sparse(S * (1 + 2j)), lambda: S.toarray() * (1 + 2j), False),
    "dct": Case(lambda: ops.DCT(10), lambda: on_rows(idct, 10)),
    "dct-odd-rows": Case(lambda: ops.DCT(11, ROWS), lambda: on_rows(idct, 11)[ROWS]),
    "dct-repeated": Case(lambda: ops.DCT(12, REPEATED), lambda: on_rows(idct, 12)[REPEATED]),
    "dct-one": Case(lambda: ops.DCT(1), lambda: np.ones((1, 1))),
    "fourier-1d": Case(lambda: ops.Fourier(9), lambda: fourier_matrix((9,), slice(None))),
    "fourier-2d": Case(
        lambda: ops.Fourier((4, 6), MASK), lambda: fourier_matrix((4, 6), MASK.ravel())
    ),
    "fourier-3d-repeated": Case(
        lambda: ops.Fourier((2, 3, 4), REPEATED), lambda: fourier_matrix((2, 3, 4), REPEATED)
    ),
    "convolution-long": Case(lambda: ops.Convolution(LONG, 33), lambda: conv_matrix(LONG, 33)),
    "convolution-short": Case(lambda: ops.Convolution(SHORT, 41), lambda: conv_matrix(SHORT, 41)),
    "convolution-complex": Case(
        lambda: ops.Convolution(COMPLEX, 20), lambda: conv_matrix(COMPLEX, 20)
    ),
    "convolution-complex-full": Case(
        lambda: ops.Convolution(COMPLEX, 4), lambda: conv_matrix(COMPLEX, 4)
    ),
    "convolution-decaying": Case(
        lambda: ops.Convolution(DECAY, 700), lambda: conv_matrix(DECAY, 700)
    ),
    "convolution-fft-tail": Case(
        lambda: ops.Convolution(MIDDLE, 1300), lambda: conv_matrix(MIDDLE, 1300)
    ),
    "convolution-one": Case(lambda: ops.Convolution([2.0], 6), lambda: 2 * np.eye(6)),
    "ar1": Case(lambda: ops.Autoregressive((0.9,), 30), lambda: ar((0.9,), 30)),
    "ar2": Case(lambda: ops.Autoregressive((1.5, -0.6), 200), lambda: ar((1.5, -0.6), 200)),
    "random-walk": Case(lambda: ops.Autoregressive((1.0,), 8), lambda: np.tri(8)),
    "wavelet-1d": Case(lambda: ops.Wavelet(32, "db4", 2), lambda: wavelet_matrix((32,), "db4", 2)),
    "wavelet-2d": Case(
        lambda: ops.Wavelet((8, 12), "db3", 2), lambda: wavelet_matrix((8, 12), "db3", 2)
    ),
    "wavelet-3d": Case(
        lambda: ops.Wavelet((4, 8, 2), "haar", 1), lambda: wavelet_matrix((4, 8, 2), "haar", 1)
    ),
    "wavelet-bior-1d": Case(
        lambda: ops.Wavelet(16, "bior4.4", 3), lambda: wavelet_matrix((16,), "bior4.4", 3)
    ),
    "wavelet-bior-2d": Case(
        lambda: ops.Wavelet((8, 16), "bior2.2", 2), lambda: wavelet_matrix((8, 16), "bior2.2", 2)
    ),
    "wavelet-almost-orthogonal": Case(
        lambda: ops.Wavelet(16, "dmey", 1), lambda: wavelet_matrix((16,), "dmey", 1)
    ),
    "difference-0": Case(
        lambda: ops.FiniteDifference((4, 5), 0), lambda: difference_matrix((4, 5), 0)
    ),
    "difference-last": Case(
        lambda: ops.FiniteDifference((2, 3, 4), -1), lambda: difference_matrix((2, 3, 4), -1)
    ),
    "difference-of-one": Case(lambda: ops.FiniteDifference((1, 3), 0), lambda: np.zeros((3, 3))),
    "difference-of-two": Case(
        lambda: ops.FiniteDifference((3, 2), 1), lambda: difference_matrix((3, 2), 1)
    ),
    "smoothing": Case(
        lambda: ops.Smoothing((6, 9), (0.5, 0.8)), lambda: smoothing_matrix((6, 9), (0.5, 0.8))
    ),
    "smoothing-wrapped": Case(
        lambda: ops.Smoothing((5, 4), (3.0, 0.0)), lambda: smoothing_matrix((5, 4), (3.0, 0.0))
    ),
    "identity": Case(lambda: ops.Identity(4), lambda: np.eye(4)),
    "diagonal": Case(lambda: ops.Diagonal(np.arange(4)), lambda: np.diag(np.arange(4.0))),
    "diagonal-complex": Case(lambda: ops.Diagonal(WEIGHTS), lambda: np.diag(WEIGHTS)),
    "centred": Case(lambda: Centred(ops.Dense(A)), lambda: without_constant(A)),
    "centred-offset": Case(lambda: Centred(ops.Dense(A + 20.0)), lambda: without_constant(A)),
    "centred-complex": Case(lambda: Centred(ops.Dense(C)), lambda: without_constant(C)),
    "centred-weighted": Case(
        lambda: Centred(ops.Dense(TALL), np.sqrt(np.arange(1.0, 13.0))),
        lambda: without_constant(TALL, np.arange(1.0, 13.0)),
    ),
    "centred-sparse": Case(
        lambda: Centred(ops.Sparse(S)), lambda: without_constant(S.toarray()), everywhere=False
    ),
    "centred-dct": Case(
        lambda: Centred(ops.DCT(11, ROWS)), lambda: without_constant(on_rows(idct, 11)[ROWS])
    ),
    "centred-fourier": Case(
        lambda: Centred(ops.Fourier(9)), lambda: without_constant(fourier_matrix((9,), slice(None)))
    ),
    "centred-walk": Case(
        lambda: Centred(ops.Autoregressive((1.0,), 8)), lambda: without_constant(np.tri(8))
    ),
    "weighted-rows": Case(
        lambda: scaled_rows(ops.DCT(11, ROWS), np.array([1.0, 2.0, 3.0])),
        lambda: np.diag([1.0, 2.0, 3.0]) @ on_rows(idct, 11)[ROWS],
    ),
    "adjoint": Case(lambda: ops.Dense(C).H, lambda: C.conj().T),
    "adjoint-dct": Case(lambda: ops.DCT(11, ROWS).H, lambda: on_rows(idct, 11)[ROWS].T),
    "adjoint-bior": Case(
        lambda: ops.Wavelet(16, "bior4.4", 3).H, lambda: wavelet_matrix((16,), "bior4.4", 3).T
    ),
    "product": Case(
        lambda: ops.Dense(A[:, :10]) @ ops.DCT(10), lambda: A[:, :10] @ on_rows(idct, 10)
    ),
    "product-diagonal": Case(
        lambda: ops.Fourier(5) @ ops.Diagonal(WEIGHTS),
        lambda: fourier_matrix((5,), slice(None)) @ np.diag(WEIGHTS),
    ),
    "sum": Case(lambda: ops.Dense(A) + ops.Dense(C), lambda: A + C),
    "difference": Case(lambda: ops.Dense(A) - ops.Dense(C), lambda: A - C),
    "scaled": Case(lambda: -2.5 * ops.Dense(A), lambda: -2.5 * A),
    "scaled-complex": Case(lambda: 2j * ops.DCT(11, ROWS), lambda: 2j * on_rows(idct, 11)[ROWS]),
    "stack": Case(
        lambda: ops.stack([ops.Identity(9), ops.Fourier(9), ops.DCT(9, [1, 2])]),
        lambda: np.vstack([np.eye(9), fourier_matrix((9,), slice(None)), on_rows(idct, 9)[[1, 2]]]),
    ),
    "transpose": Case(lambda: ops.Dense(C).T, lambda: C.T),
    "transpose-real": Case(lambda: ops.DCT(11, ROWS).T, lambda: on_rows(idct, 11)[ROWS].T),
    "transpose-fourier": Case(
        lambda: ops.Fourier(9, [1, 4]).T, lambda: fourier_matrix((9,), [1, 4]).T
    ),
    "conjugate": Case(lambda: ops.Dense(C).conj(), lambda: C.conj()),
    "divided": Case(lambda: ops.Dense(A) / 4, lambda: A / 4),
    "plus-array": Case(lambda: A - ops.DCT(12)[:7], lambda: A - on_rows(idct, 12)[:7]),
    "hstack": Case(
        lambda: ops.hstack([ops.Identity(9), ops.Fourier(9), ops.DCT(9)]),
        lambda: np.hstack([np.eye(9), fourier_matrix((9,), slice(None)), on_rows(idct, 9)]),
    ),
    "block-diagonal": Case(
        lambda: ops.block_diagonal([ops.Dense(A), ops.Fourier(5), ops.Identity(2)]),
        lambda: scipy.linalg.block_diag(A, fourier_matrix((5,), slice(None)), np.eye(2)),
    ),
    "kronecker": Case(
        lambda: ops.kronecker(ops.Dense(A), ops.DCT(4), ops.Dense(C[:2, :3])),
        lambda: np.kron(np.kron(A, on_rows(idct, 4)), C[:2, :3]),
    ),
    "kronecker-real": Case(
        lambda: ops.kronecker(ops.Convolution(SHORT, 6), ops.Dense(TALL)),
        lambda: np.kron(conv_matrix(SHORT, 6), TALL),
    ),
    "restriction": Case(lambda: ops.Restriction(10, ROWS), lambda: np.eye(10)[ROWS]),
    "restriction-repeated": Case(
        lambda: ops.Restriction(10, REPEATED), lambda: np.eye(10)[REPEATED]
    ),
    "restriction-adjoint": Case(
        lambda: ops.Restriction(10, REPEATED).H, lambda: np.eye(10)[REPEATED].T
    ),
    "rows-of-dense": Case(lambda: ops.Dense(C)[[3, 0, 3]], lambda: C[[3, 0, 3]]),
    "rows-of-sparse": Case(lambda: ops.Sparse(S)[::2], lambda: S.toarray()[::2], False),
    "rows-of-dct": Case(lambda: ops.DCT(11, ROWS)[[2, 0]], lambda: on_rows(idct, 11)[ROWS[[2, 0]]]),
    "rows-of-fourier": Case(
        lambda: ops.Fourier((4, 6), MASK)[:3],
        lambda: fourier_matrix((4, 6), np.flatnonzero(MASK)[:3]),
    ),
    "rows-of-convolution": Case(
        lambda: ops.Convolution(SHORT, 41)[REPEATED], lambda: conv_matrix(SHORT, 41)[REPEATED]
    ),
    "columns": Case(
        lambda: ops.Convolution(SHORT, 20)[:, ROWS], lambda: conv_matrix(SHORT, 20)[:, ROWS]
    ),
    "rows-and-columns": Case(
        lambda: ops.Wavelet(32, "db4", 2)[5:9, ROWS],
        lambda: wavelet_matrix((32,), "db4", 2)[5:9][:, ROWS],
    ),
    "weighted-autoregression": Case(
        lambda: ops.Diagonal(np.arange(1, 31)) @ ops.Autoregressive((0.9,), 30),
        lambda: np.diag(np.arange(1.0, 31)) @ ar((0.9,), 30),
    ),
    "dct-2d": Case(lambda: ops.DCT((4, 5)), lambda: dct_matrix((4, 5))),
    "dct-2d-mask": Case(lambda: ops.DCT((4, 6), MASK), lambda: dct_matrix((4, 6))[MASK.ravel()]),
    "dct-3d-repeated": Case(
        lambda: ops.DCT((2, 3, 4), REPEATED), lambda: dct_matrix((2, 3, 4))[REPEATED]
    ),
    "dct-2d-line": Case(lambda: ops.DCT((1, 7)), lambda: on_rows(idct, 7)),
    "toeplitz": Case(
        lambda: ops.Toeplitz(SHORT, [SHORT[0], *LONG]),
        lambda: scipy.linalg.toeplitz(SHORT, [SHORT[0], *LONG]),
    ),
    "toeplitz-tall": Case(
        lambda: ops.Toeplitz(LONG, [LONG[0], *SHORT]),
        lambda: scipy.linalg.toeplitz(LONG, [LONG[0], *SHORT]),
    ),
    "toeplitz-hermitian": Case(
        lambda: ops.Toeplitz(np.append(1.0, COMPLEX)),
        lambda: scipy.linalg.toeplitz(np.append(1.0, COMPLEX)),
    ),
    "toeplitz-one": Case(lambda: ops.Toeplitz([2.0], [2.0]), lambda: 2 * np.eye(1)),
    "hankel": Case(
        lambda: ops.Hankel(SHORT, [SHORT[-1], *LONG]),
        lambda: scipy.linalg.hankel(SHORT, [SHORT[-1], *LONG]),
    ),
    "hankel-complex": Case(
        lambda: ops.Hankel(WEIGHTS, [WEIGHTS[-1], *COMPLEX]),
        lambda: scipy.linalg.hankel(WEIGHTS, [WEIGHTS[-1], *COMPLEX]),
    ),
    "functions": Case(
        lambda: ops.from_functions(lambda z: z * 2, lambda y: y * 2, (4, 4), float),
        lambda: 2 * np.eye(4),
    ),
    "functions-row-by-row": Case(
        lambda: ops.from_functions(lambda z: z[1:], np_pad, (4, 5), float, batched=False),
        lambda: np.eye(5)[1:],
        everywhere=False,
    ),
    "functions-complex": Case(
        lambda: ops.from_functions(lambda z: z * 2j, lambda y: y * -2j, (4, 4), np.complex64),
        lambda: 2j * np.eye(4),
    ),
    "scipy": Case(wrapped, lambda: A, everywhere=False),
}
