"""What a user is told when something is wrong: the argument's name and what came."""

import re

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from input_cases import PHI, Y, fit

import cofem
from cofem.operators import DCT, from_functions

ERRORS = (ValueError, TypeError)


def spoiled(x, value):
    x = np.array(x, dtype=float)
    x.flat[3] = value
    return x


BAD = {
    # argument: (phi, y, options)
    "y nan": (PHI, spoiled(Y, np.nan), {}),
    "y inf": (PHI, spoiled(Y, np.inf), {}),
    "y -inf": (PHI, spoiled(Y, -np.inf), {}),
    "y short": (PHI, Y[:5], {}),
    "y long": (PHI, np.ones(9), {}),
    "y empty": (PHI, np.zeros(0), {}),
    "y scalar": (PHI, 3.0, {}),
    "y generator": (PHI, (v for v in Y), {}),
    "y set": (PHI, {1.0, 2.0}, {}),
    "y too large": (PHI, 1e200 * Y, {}),
    "y too small": (PHI, 1e-200 * Y, {}),
    "y too large for float32": (PHI.astype(np.float32), (1e25 * Y).astype(np.float32), {}),
    "y sparse": (PHI, scipy.sparse.csr_array(Y[None]), {}),
    "phi too large": (1e200 * PHI, Y, {}),
    "phi too small": (1e-200 * PHI, Y, {}),
    "phi too large and sparse": (scipy.sparse.csr_array(1e200 * PHI), Y, {}),
    "y 3-d": (PHI, np.zeros((1, 1, 6)), {}),
    "y objects": (PHI, np.array([1, 2, None, 4, 5, 6], dtype=object), {}),
    "y strings": (PHI, ["a"] * 6, {}),
    "y None": (PHI, None, {}),
    "y ragged": (PHI, [[1.0], [1.0, 2.0]], {}),
    "y masked": (PHI, np.ma.masked_invalid(spoiled(Y, np.nan)), {}),
    "phi nan": (spoiled(PHI, np.nan), Y, {}),
    "phi inf": (spoiled(PHI, np.inf), Y, {}),
    "phi 1-d": (PHI[0], Y, {}),
    "phi 3-d": (PHI[None], Y, {}),
    "phi no rows": (np.zeros((0, 4)), Y, {}),
    "phi no columns": (np.zeros((6, 0)), Y, {}),
    "phi objects": (PHI.astype(object), Y, {}),
    "phi strings": (PHI.astype(str), Y, {}),
    "phi None": (None, Y, {}),
    "phi number": (3.0, Y, {}),
    "phi empty list": ([], Y, {}),
    "phi list of operators, one y": ([PHI, PHI], Y, {}),
    "phi more operators than data": ([PHI, PHI], [Y], {}),
    "phi tasks of other widths": ([PHI, PHI[:, :5]], [Y, Y], {}),
    "y tasks of other lengths": ([PHI, PHI], [Y, Y[:4]], {}),
    "y joint nan": (PHI, np.stack([Y, spoiled(Y, np.nan)]), {}),
    "noise_precision zero": (PHI, Y, {"noise_precision": 0.0}),
    "noise_precision negative": (PHI, Y, {"noise_precision": -1.0}),
    "noise_precision nan": (PHI, Y, {"noise_precision": np.nan}),
    "noise_precision inf": (PHI, Y, {"noise_precision": np.inf}),
    "noise_precision string": (PHI, Y, {"noise_precision": "high"}),
    "noise_precision number as a string": (PHI, Y, {"noise_precision": "10"}),
    "noise_precision complex": (PHI, Y, {"noise_precision": 1j}),
    "noise_precision per row": (PHI, Y, {"noise_precision": np.ones(5)}),
    "noise_precision of rows of one task": (PHI, Y, {"noise_precision": np.ones((2, 6))}),
    "noise_precision negative in a row": (PHI, Y, {"noise_precision": [1, 1, -1, 1, 1, 1]}),
    "noise_precision beside noise_std": (PHI, Y, {"noise_precision": 1.0, "noise_std": 1.0}),
    "noise_std zero": (PHI, Y, {"noise_std": 0.0}),
    "noise_std tiny": (PHI, Y, {"noise_std": 1e-200}),
    "noise_std text": (PHI, Y, {"noise_std": "1"}),
    "weights short": (PHI, Y, {"weights": np.ones(5)}),
    "weights zero": (PHI, Y, {"weights": np.zeros(6)}),
    "weights beside a noise_precision of rows": (
        PHI, Y, {"weights": np.ones(6), "noise_precision": np.ones(6)}
    ),
    "noise_precision per task": (PHI, np.stack([Y, Y]), {"noise_precision": [1.0, 2.0, 3.0]}),
    "noise_precision of one task": (PHI, np.stack([Y, Y]), {"noise_precision": [1.0, -2.0]}),
    "max_iter zero": (PHI, Y, {"max_iter": 0}),
    "max_iter negative": (PHI, Y, {"max_iter": -3}),
    "max_iter fraction": (PHI, Y, {"max_iter": 2.5}),
    "tol negative": (PHI, Y, {"tol": -1e-3}),
    "tol nan": (PHI, Y, {"tol": np.nan}),
    "tol string": (PHI, Y, {"tol": "small"}),
    "seed negative": (PHI, Y, {"seed": -1}),
    "seed fraction": (PHI, Y, {"seed": 0.5}),
    "method unknown": (PHI, Y, {"method": "lasso"}),
    "method None": (PHI, Y, {"method": None}),
    "method class": (PHI, Y, {"method": cofem.EM}),
    "groups empty": (PHI, Y, {"groups": []}),
    "groups as lists of members": (PHI, Y, {"groups": [[0, 1, 2], [3, 4, 5], [6, 7, 8]]}),
    "progress string": (PHI, Y, {"progress": "yes"}),
    "groups short": (PHI, Y, {"groups": [0, 1]}),
    "groups floats": (PHI, Y, {"groups": np.zeros(9)}),
    "groups negative": (PHI, Y, {"groups": np.arange(9) - 1}),
    "groups strings": (PHI, Y, {"groups": list("abcdefghi")}),
    "coupling of another size": (PHI, Y, {"coupling": np.eye(4)}),
    "nonnegative complex data": (PHI, Y + 1j, {"nonnegative": True}),
    "nonnegative complex phi": (PHI + 1j, Y, {"nonnegative": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    phi, y, options = BAD[case]
    name = case.split()[0]
    with pytest.raises(ERRORS, match=rf"\b{name}\b"):
        fit(phi, y, **options)


@pytest.mark.parametrize("bad", [0, -3, 1.5])
def test_bad_n_probes_is_named(bad):
    with pytest.raises(ERRORS, match="n_probes"):
        fit(method=cofem.CoFEM(n_probes=bad))


def test_shapes_are_told():
    with pytest.raises(ValueError, match=re.escape("(6, 9)")):
        fit(y=np.ones(7))


def test_a_bad_preconditioner_is_named():
    with pytest.raises(ERRORS, match="preconditioner"):
        fit(method=cofem.CoFEM(preconditioner=np.ones(4)))
    with pytest.raises(ERRORS, match="preconditioner"):
        fit(method=cofem.CoFEM(preconditioner="ilu"))


# -- operators of the user -----------------------------------------------------


def broken_operator(where, after=0):
    """Functions whose ``where`` returns NaN from call number ``after`` on."""
    calls = {"forward": 0, "adjoint": 0}

    def product(name, matrix):
        def call(x):
            calls[name] += 1
            out = x @ matrix
            return out * np.nan if name == where and calls[name] > after else out

        return call

    return from_functions(product("forward", PHI.T), product("adjoint", PHI), (6, 9), float)


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
@pytest.mark.parametrize("where", ["forward", "adjoint"])
def test_nan_out_of_an_operator_names_the_call(method, where):
    with pytest.raises(ValueError, match=f"{where} returned NaN or Inf"):
        fit(broken_operator(where), method=method)


def test_nan_in_the_middle_of_a_fit_names_the_call():
    with pytest.raises(ValueError, match="adjoint returned NaN or Inf"):
        fit(broken_operator("adjoint", after=12), method="cofem", max_iter=30)


def test_a_wrong_adjoint_is_found():
    wrong = from_functions(lambda z: z @ PHI.T, lambda y: 2 * (y @ PHI), (6, 9), float)
    with pytest.raises(ValueError, match="phi: adjoint does not match forward"):
        fit(wrong)
    with pytest.raises(ValueError, match=re.escape("phi[1]: adjoint does not match forward")):
        fit([PHI, wrong], [Y, Y])


def test_a_wrong_adjoint_of_a_complex_operator_is_found():
    matrix = PHI + 1j * PHI[::-1]
    wrong = from_functions(lambda z: z @ matrix.T, lambda y: y @ matrix, (6, 9), complex)
    with pytest.raises(ValueError, match="phi"):
        fit(wrong, Y + 0j)


def test_wrong_shapes_out_of_an_operator_name_the_call():
    wrong = from_functions(lambda z: z @ PHI.T[:, :5], lambda y: y @ PHI, (6, 9), float)
    with pytest.raises(ValueError, match="forward returned shape"):
        fit(wrong)


# -- libraries -----------------------------------------------------------------


def test_arrays_of_two_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="phi") as caught:
        fit(torch.asarray(PHI), Y)
    assert "torch" in str(caught.value)
    assert "numpy" in str(caught.value)
    with pytest.raises(TypeError, match="phi"):
        fit(PHI, torch.asarray(Y))
    with pytest.raises(TypeError, match=re.escape("y[1]")):
        fit([DCT(6), DCT(6)], [Y, torch.asarray(Y)])


# -- posterior -----------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        np.ones(4), np.zeros(9), -np.ones(9), np.full(9, np.nan), np.full(9, np.inf), "one",
        np.ones((9, 1)), np.ones(9) * 1j, None, np.array([None] * 9), 0.0,
    ],
    ids=repr,
)  # fmt: skip
def test_posterior_names_a_bad_precision(bad):
    with pytest.raises(ERRORS, match="precision"):
        cofem.posterior(PHI, Y, precision=bad, noise_precision=1.0)


@pytest.mark.parametrize("bad", [None, 0.0, -1.0, np.nan, "x"])
def test_posterior_names_a_bad_noise_precision(bad):
    with pytest.raises(ERRORS, match="noise_precision"):
        cofem.posterior(PHI, Y, precision=np.ones(9), noise_precision=bad)


def test_posterior_refuses_what_fit_refuses():
    with pytest.raises(ValueError, match="y"):
        cofem.posterior(PHI, spoiled(Y, np.nan), precision=np.ones(9), noise_precision=1.0)
    with pytest.raises(ValueError, match="nonnegative"):
        cofem.posterior(PHI, Y + 1j, precision=np.ones(9), noise_precision=1.0, nonnegative=True)


def test_posterior_takes_one_number_or_a_list():
    a = cofem.posterior(PHI, Y, precision=2, noise_precision=3)
    b = cofem.posterior(PHI, Y, precision=[2] * 9, noise_precision=3.0)
    np.testing.assert_array_equal(a.mean, b.mean)
    assert a.precision.shape == (9,)
    assert a.converged
