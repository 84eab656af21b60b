"""fit_many: problems that fail or do not converge, and input that is refused."""

import sys

import numpy as np
import pytest
from many_cases import OPTIONS, STORES, place, problems

import cofem
from cofem.many import fit_many
from cofem.operators import DCT


@pytest.mark.parametrize("bad", [0, 5, 11])
@pytest.mark.parametrize("kind", STORES)
def test_one_failing_problem_is_reported_and_the_others_finish(bad, kind, tmp_path):
    phi, Y = problems()
    Y[bad, 3] = np.nan
    with pytest.warns(UserWarning, match=rf"1 of 12 problems failed, the first of them {bad} "):
        many = fit_many(phi, Y, store=place(kind, tmp_path), **OPTIONS)
    assert many.failed == [(bad, "ValueError: y contains NaN or Inf")]
    assert np.all(np.isnan(many.mean[bad]))
    assert not many.converged[bad]
    others = np.delete(np.arange(12), bad)
    expected = fit_many(phi, Y[others], **OPTIONS)
    np.testing.assert_array_equal(many.mean[:][others], expected.mean)


def test_all_problems_fail():
    phi, Y = problems(3)
    with pytest.warns(UserWarning, match="3 of 3 problems failed"):
        many = fit_many(phi, np.full_like(Y, np.inf), **OPTIONS)
    assert [index for index, _ in many.failed] == [0, 1, 2]


def test_how_many_did_not_converge():
    phi, Y = problems()
    with pytest.warns(cofem.ConvergenceWarning, match="12 of 12 fits did not converge"):
        many = fit_many(phi, Y, noise_precision=1e4, max_iter=2)
    assert "max_iter=2" in many.message[3]


def test_in_how_many_rows_are_far_away():
    phi, Y = problems(3)
    phi, Y = phi[:, :5], Y.copy()  # with few unknowns, so that none of them can explain the error
    Y[1, 3] += 50
    with pytest.warns(UserWarning, match="in 1 of 3 fits, the first of them 1, rows of y are fur"):
        many = fit_many(phi, Y)
    assert many.converged.all()
    assert "(row 3)" in many.message[1]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"Y": np.ones((3, 7))}, ValueError, "rows of 7 entries and phi has 20 rows"),
        ({"Y": np.ones((20, 3))}, ValueError, "transposed"),
        ({"Y": np.ones(20)}, ValueError, r"shape \(P, N\)"),
        ({"Y": np.ones((0, 20))}, ValueError, r"shape \(P, N\)"),
        ({"Y": [[1.0], [1.0, 2.0]]}, ValueError, "Y must"),
        ({"Y": np.full((2, 20), "a")}, TypeError, "Y must hold numbers"),
        ({"phi": "phi"}, TypeError, "phi must be"),
        ({"phi": [DCT(20), DCT(20)]}, TypeError, "one operator"),
        ({"store": 3}, TypeError, "store must be a path"),
        ({"store": "no/such/folder"}, FileNotFoundError, "store: the directory no/such"),
        ({"callback": print}, TypeError, "callback is an option of single fits"),
        ({"bogus": 1}, TypeError, "no option 'bogus'"),
        ({"method": "magic"}, ValueError, "method must be"),
        ({"tol": -1.0}, ValueError, "tol must be"),
        ({"noise_precision": [1.0, 2.0]}, ValueError, r"one per problem \(12\)"),
        ({"noise_precision": ["a"] * 12}, TypeError, "noise_precision"),
        ({"noise_precision": -1.0}, ValueError, "noise_precision must be positive"),
    ],
)
def test_bad_input_is_named_before_the_work(change, error, match):
    phi, Y = problems()
    arguments = {"phi": phi, "Y": Y, **OPTIONS, **change}
    with pytest.raises(error, match=match):
        fit_many(**arguments)


def test_without_zarr_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    phi, Y = problems(2)
    with pytest.raises(ImportError, match="pip install zarr"):
        fit_many(phi, Y, store=tmp_path / "many.zarr", **OPTIONS)
