"""Small problems for fit_many, the places where results are kept, and what is compared."""

from __future__ import annotations

import numpy as np
import pytest

import cofem

STORES = ["memory", "folder", "zarr"]
OPTIONS = {"noise_precision": 1e4, "max_iter": 15, "tol": 0}
NUMBERS = ("mean", "variance", "precision", "noise_precision", "log_evidence")


def problems(count=12, n=20, d=30, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    Z = rng.normal(size=(count, d)) * (rng.random((count, d)) < 0.1)
    return phi, Z @ phi.T + 0.01 * rng.normal(size=(count, n))


def place(kind, folder):
    if kind == "zarr":
        pytest.importorskip("zarr")
    return {"memory": None, "folder": folder / "many", "zarr": folder / "many.zarr"}[kind]


def assert_same(many, phi, Y, **options):
    for p, y in enumerate(Y):
        post = cofem.fit(phi, y, **options)
        np.testing.assert_array_equal(many.mean[p], post.mean)
        np.testing.assert_array_equal(many.variance[p], post.variance)
        np.testing.assert_array_equal(many.precision[p], post.precision)
        assert many.noise_precision[p] == post.noise_precision
        assert many.log_evidence[p] == post.log_evidence
        assert many.converged[p] == post.converged
        assert many.message[p] == post.message


def assert_rows_equal(many, expected):
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(many, name)[:], getattr(expected, name)[:])


def assert_rows_close(many, expected):
    """The same to rounding: another process may add in another order."""
    for name in NUMBERS:
        there, wanted = getattr(many, name)[:], getattr(expected, name)[:]
        np.testing.assert_allclose(there, wanted, rtol=1e-9, atol=1e-12)
