"""Matrices of operators, built without them, and how results are compared with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pywt
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg


def on_rows(function: Callable[[np.ndarray], np.ndarray], d: int) -> np.ndarray:
    return function(np.eye(d)).T


def conv_matrix(kernel: Any, n: int) -> np.ndarray:
    column = np.zeros(n, np.asarray(kernel).dtype)
    column[: len(kernel)] = kernel
    return scipy.linalg.toeplitz(column, np.zeros(n))


def fourier_matrix(shape: tuple[int, ...], flat: Any) -> np.ndarray:
    eye = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    spectra = np.fft.fftn(eye, axes=range(1, len(shape) + 1), norm="ortho")
    return spectra.reshape(len(eye), -1).T[flat]


def dct_matrix(shape: tuple[int, ...]) -> np.ndarray:
    eye = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    images = scipy.fft.idctn(eye, axes=range(1, len(shape) + 1), norm="ortho")
    return images.reshape(len(eye), -1).T


def wavelet_matrix(shape: tuple[int, ...], name: str, level: int) -> np.ndarray:
    with warnings.catch_warnings():  # PyWavelets warns about depths where borders meet
        warnings.simplefilter("ignore", UserWarning)
        template = pywt.wavedecn(np.zeros(shape), name, mode="periodization", level=level)
    _, slices = pywt.coeffs_to_array(template)
    columns = []
    for e in np.eye(int(np.prod(shape))):
        nested = pywt.array_to_coeffs(e.reshape(shape), slices, output_format="wavedecn")
        columns.append(pywt.waverecn(nested, name, mode="periodization").ravel())
    return np.stack(columns, axis=1)


def difference_matrix(shape: tuple[int, ...], axis: int) -> np.ndarray:
    def differences(eye: np.ndarray) -> np.ndarray:
        image = eye.reshape(-1, *shape)
        shifted = np.roll(image, 1, axis=axis % len(shape) + 1)
        return (image - shifted).reshape(len(eye), -1)

    return on_rows(differences, int(np.prod(shape)))


def smoothing_matrix(shape: tuple[int, ...], sigmas: tuple[float, ...]) -> np.ndarray:
    out = np.ones((1, 1))
    for n, sigma in zip(shape, sigmas, strict=True):
        one = np.zeros((n, n))
        radius = int(np.ceil(4 * sigma))
        for o in range(-radius, radius + 1):
            weight = np.exp(-0.5 * (o / sigma) ** 2) if sigma else 1.0
            one += weight * np.roll(np.eye(n), o, axis=0)
        out = np.kron(out, one / one.sum(axis=0))
    return out


def without_constant(matrix: np.ndarray, weights: Any = 1.0) -> np.ndarray:
    """Reflect the direction of the constant to the first axis, written out, and drop that row."""
    n = len(matrix)
    u = np.sqrt(np.broadcast_to(weights, (n,)) / np.sum(np.broadcast_to(weights, (n,))))
    v = u + np.eye(n)[0]
    return ((np.eye(n) - 2 * np.outer(v, v) / (v @ v)) @ matrix)[1:]


def np_pad(y: Any) -> Any:
    if isinstance(y, np.ndarray):
        return np.pad(y, (1, 0))
    import torch

    return torch.nn.functional.pad(y, (1, 0))


def random_array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    draws = np.random.default_rng([seed, 99])
    x = draws.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * draws.standard_normal(shape)
    return x.astype(dtype)


def tolerance(dtype: str) -> float:
    return 3e-6 if dtype in ("float32", "complex64") else 1e-13


def assert_near(actual: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """Compare relative to the largest entry: rounding errors of transforms are spread."""
    scale = max(1e-30, float(np.max(np.abs(expected), initial=0.0)))
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=10 * tolerance(dtype) * scale)


def expected_dtype(dtype: str, is_complex: bool) -> str:
    if is_complex:
        return {"float32": "complex64", "float64": "complex128"}.get(dtype, dtype)
    return dtype
