"""fit_many: the numbers of single fits, in one process and in two."""

import re
from pathlib import Path

import numpy as np
import pytest
from many_cases import (
    OPTIONS,
    STORES,
    assert_rows_close,
    assert_rows_equal,
    assert_same,
    place,
    problems,
)

import cofem
from cofem.many import fit_many
from cofem.operators import DCT, Fourier, from_functions


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


def test_the_examples_of_the_page_run():
    page = Path(__file__).parents[2] / "docs" / "many.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {"fit_many": fit_many}
    for example in examples:
        exec(example.replace("cofem.fit_many", "fit_many"), names)
    assert names["many"].mean.shape == (20, 64)
    assert names["post"].sample(2, seed=0).shape == (2, 64)


# -- one of many -----------------------------------------------------------------


def test_one_of_many_is_the_single_fit():
    phi, Y = problems(4)
    many = fit_many(phi, Y, **OPTIONS)
    assert len(list(many)) == 4
    for i in (0, 2, -1, np.int64(1)):
        one, single = many[i], cofem.fit(phi, Y[i], **OPTIONS)
        for name in ("mean", "variance", "precision", "std"):
            np.testing.assert_array_equal(getattr(one, name), getattr(single, name))
        for name in ("noise_precision", "log_evidence", "converged", "message"):
            assert getattr(one, name) == getattr(single, name)
        assert not one.failed
    plain = fit_many(phi, Y, prior="ard", **OPTIONS)[2]
    again = cofem.posterior(
        phi, Y[2], precision=plain.precision, noise_precision=plain.noise_precision
    )
    np.testing.assert_allclose(again.mean, plain.mean, rtol=1e-8, atol=1e-12)


def test_an_index_that_is_none():
    phi, Y = problems(3)
    many = fit_many(phi, Y, **OPTIONS)
    with pytest.raises(IndexError, match="3 problems"):
        many[3]
    for bad in (slice(0, 2), "mean", 1.0):
        with pytest.raises(TypeError, match="whole number"):
            many[bad]


def test_a_failed_one_says_so():
    phi, Y = problems(3)
    Y[1, 0] = np.nan
    with pytest.warns(UserWarning, match="1 of 3 problems failed"):
        many = fit_many(phi, Y, **OPTIONS)
    assert many[1].failed
    assert "NaN" in many[1].message
    assert np.isnan(many[1].mean).all()
    assert [one.failed for one in many] == [False, True, False]


def test_tensors_on_the_host_are_welcome():
    torch = pytest.importorskip("torch")
    phi, Y = problems(3)
    expected = fit_many(phi, Y, **OPTIONS)
    tensors = torch.from_numpy(phi).requires_grad_(), torch.from_numpy(Y)
    for a, b in (tensors, (phi, tensors[1]), (tensors[0], Y)):
        many = fit_many(a, b, **OPTIONS)
        assert isinstance(many.mean, np.ndarray)
        np.testing.assert_array_equal(many.mean, expected.mean)


def test_tensors_on_a_device_are_refused_by_name():
    torch = pytest.importorskip("torch")
    phi, Y = problems(3)
    with pytest.raises(TypeError, match="intercept is no option for rows on a device"):
        fit_many(phi, torch.empty(Y.shape, device="meta"), intercept=True, **OPTIONS)


@pytest.mark.parametrize("bad", ["all", 1.5, True])
def test_n_jobs_is_a_number(bad):
    phi, Y = problems(2)
    with pytest.raises(TypeError, match="n_jobs"):
        fit_many(phi, Y, n_jobs=bad, **OPTIONS)
