"""fit_many: the numbers of single fits, in one process and in two."""

import re
from pathlib import Path

import numpy as np
import pytest

import cofem
from cofem.many import fit_many
from cofem.operators import DCT, Fourier, from_functions
from many_cases import (
    OPTIONS,
    STORES,
    assert_rows_close,
    assert_rows_equal,
    assert_same,
    place,
    problems,
)


@pytest.mark.parametrize("kind", STORES)
def test_rows_are_single_fits(kind, tmp_path):
    phi, Y = problems()
    many = fit_many(phi, Y, store=place(kind, tmp_path), **OPTIONS)
    assert_same(many, phi, Y, **OPTIONS)
    assert len(many) == 12
    assert many.failed == []
    np.testing.assert_array_equal(many.std, np.sqrt(many.variance[:]))
    assert repr(many) == "ManyPosteriors(12 problems × 30 unknowns; 0 converged, 0 failed)"


@pytest.mark.parametrize("kind", STORES)
def test_complex_data_and_single_precision(kind, tmp_path):
    phi, Y = problems(3)
    single = fit_many(
        phi.astype(np.float32), Y.astype(np.float32), store=place(kind, tmp_path), **OPTIONS
    )
    assert single.mean.dtype == single.variance.dtype == np.float32
    fourier = Fourier((16,), mask=np.arange(16) % 3 > 0)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(3, 10)) + 1j * rng.normal(size=(3, 10))
    (tmp_path / "two").mkdir()
    many = fit_many(fourier, data, store=place(kind, tmp_path / "two"), **OPTIONS)
    assert many.mean.dtype == np.complex128
    assert many.variance.dtype == np.float64
    assert_same(many, fourier, data, **OPTIONS)


def test_options_go_to_every_fit():
    phi, Y = problems(4)
    options = {"nonnegative": True, "method": cofem.CoFEM(n_probes=3), "max_iter": 5, "tol": 0}
    beta = np.array([1e2, 1e3, 1e4, 1e5])
    many = fit_many(phi, Y, noise_precision=beta, **options)
    for p in range(4):
        post = cofem.fit(phi, Y[p], noise_precision=beta[p], **options)
        np.testing.assert_array_equal(many.mean[p], post.mean)
    unknown = fit_many(phi, Y[:2], max_iter=5, tol=0)
    assert_same(unknown, phi, Y[:2], max_iter=5, tol=0)


def test_two_processes_give_the_same_numbers():
    phi, Y = problems(40)
    assert_rows_close(fit_many(phi, Y, n_jobs=2, **OPTIONS), fit_many(phi, Y, **OPTIONS))


def test_functions_of_the_user_travel_too():
    rows = np.arange(0, 32, 2)
    op = DCT(32, rows=rows)
    phi = from_functions(lambda z: op.forward(z), lambda y: op.adjoint(y), (16, 32), float)
    Y = np.random.default_rng(0).normal(size=(6, 16))
    assert_rows_close(fit_many(phi, Y, n_jobs=2, **OPTIONS), fit_many(phi, Y, **OPTIONS))


def test_problems_that_are_memory_mapped(tmp_path):
    phi, Y = problems(5)
    np.save(tmp_path / "y.npy", Y)
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    assert_rows_equal(fit_many(phi, mapped, **OPTIONS), fit_many(phi, Y, **OPTIONS))


def test_the_example_of_the_page_runs():
    page = Path(__file__).parents[1] / "docs" / "many.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(example.replace("cofem.fit_many", "fit_many"), {"fit_many": fit_many}, names)
    assert names["many"].mean.shape == (20, 64)
