"""What holds for every operator, in every library and precision."""

import functools
import pickle

import array_api_strict
import numpy as np
import pytest
from operator_cases import CASES, DTYPES
from operator_tools import assert_near, expected_dtype, random_array

import cofem.operators
from cofem import backend
from cofem.operators.base import LinearOperator

names = pytest.mark.parametrize("name", CASES)
dtypes = pytest.mark.parametrize("dtype", DTYPES)
PICKLABLE = [name for name in CASES if not name.startswith("functions")]


@functools.cache
def operator(name: str) -> LinearOperator:
    return CASES[name].make()


@functools.cache
def matrix(name: str) -> np.ndarray:
    return CASES[name].matrix()


@functools.cache
def gram_matrix(name: str) -> np.ndarray:
    """(ΦᴴΦ)ᵀ, which multiplies rows from the right."""
    return matrix(name).T @ matrix(name).conj()


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


@names
@dtypes
@pytest.mark.parametrize(("seed", "batch"), [(0, ()), (1, (3,)), (2, (2, 3))])
def test_products_equal_the_matrix(name, dtype, seed, batch):
    op, A = operator(name), matrix(name)
    n, d = op.shape
    assert A.shape == op.shape
    x = read_only(random_array((*batch, d), dtype, seed))
    y = read_only(random_array((*batch, n), dtype, seed + 10))
    wanted = expected_dtype(dtype, op.is_complex)
    for out, exact in (
        (op.forward(x), x @ A.T),
        (op.adjoint(y), y @ A.conj()),
        (op.gram(x), x @ gram_matrix(name)),
    ):
        assert_near(out, exact, dtype)
        # A Gram may be real for a complex operator (Identity's part of a stack, diagonals).
        assert out.dtype == wanted or (out.dtype == dtype and op.is_complex)


@names
@dtypes
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dot_test(name, dtype, seed):
    cofem.operators.check_adjoint(operator(name), np.empty(0, dtype), seed=seed, rtol=3e-6)


@names
@dtypes
def test_results_do_not_alias_the_argument(name, dtype):
    op = operator(name)
    x, y = random_array((op.shape[1],), dtype, 0), random_array((op.shape[0],), dtype, 0)
    for product, argument in ((op.forward, x), (op.adjoint, y), (op.gram, x)):
        before = argument.copy()
        out = product(argument)
        out[...] = 7
        np.testing.assert_array_equal(argument, before)


@names
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_column_norms(name, dtype):
    op, A = operator(name), matrix(name)
    norms = op.column_norms_squared(np.empty(0, dtype))
    assert norms.dtype == ("float64" if dtype == "float64" else "float32")
    assert op.exact_column_norms
    assert_near(norms, np.sum(np.abs(A) ** 2, axis=0), dtype)
    rows = op.H.column_norms_squared(np.empty(0, dtype))
    if op.H.exact_column_norms:
        assert_near(rows, np.sum(np.abs(A) ** 2, axis=1), dtype)
    else:
        assert rows.shape == (op.shape[0],)


@names
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weighted_column_norms(name, dtype):
    op, A = operator(name), matrix(name)
    weights = np.abs(random_array((op.shape[0],), dtype, 4))
    norms = op.weighted_column_norms_squared(weights)
    assert norms.shape == (op.shape[1],)
    if op.exact_weighted_norms:
        assert_near(norms, weights @ np.abs(A) ** 2, dtype)


@names
def test_what_is_said_of_the_entries_holds(name):
    op, entries = operator(name), np.abs(matrix(name)) > 1e-13
    if op.one_per_row:
        assert entries.sum(axis=1).max() <= 1
    if op.one_per_column:
        assert entries.sum(axis=0).max() <= 1


@names
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_the_sign_for_products_means_matrices(name, dtype):
    op, A = operator(name), matrix(name)
    n, d = op.shape
    x, y = random_array((2, d, 3), dtype, 5), random_array((2, 3, n), dtype, 6)
    assert_near(op @ x, A @ x, dtype)
    assert_near(op @ x[0, :, 0], A @ x[0, :, 0], dtype)
    assert_near(y @ op, y @ A, dtype)
    assert_near(y[0, 0] @ op, y[0, 0] @ A, dtype)
    # A chosen row may be zero: rounding is judged beside the whole matrix.
    for part, exact in (
        (op.T, A.T),
        (op[[-1]], A[[-1]]),
        (op[:, [-1]], A[:, [-1]]),
        (op[::2, :], A[::2]),
    ):
        np.testing.assert_allclose(part.to_dense(), exact, atol=1e-12 * (1 + np.abs(A).max()))


@names
def test_dense_and_integers(name):
    op, A = operator(name), matrix(name)
    assert_near(op.to_dense(), A, "float64")
    steps = np.arange(op.shape[1], dtype=np.int32) ** 2
    assert_near(op.forward(steps), A @ steps, "float64")
    assert op.forward(steps).dtype in (np.float64, np.complex128)


@pytest.mark.parametrize("name", PICKLABLE)
def test_pickle(name):
    op = operator(name)
    op.gram(np.ones(op.shape[1]))  # fills the caches
    again = pickle.loads(pickle.dumps(op))
    x = random_array((2, op.shape[1]), "float64", 3)
    np.testing.assert_array_equal(again.gram(x), op.gram(x))
    assert (again.shape, again.is_complex) == (op.shape, op.is_complex)


def compare_with_library(name: str, dtype: str, asarray) -> None:
    op, A = operator(name), matrix(name)
    n, d = op.shape
    x, y = random_array((2, d), dtype, 0), random_array((2, n), dtype, 1)
    for batch_x, batch_y in ((x, y), (x[0], y[0]), (x[None], y[None])):
        there, back = asarray(batch_x.copy()), asarray(batch_y.copy())
        for out, exact in (
            (op.forward(there), batch_x @ A.T),
            (op.adjoint(back), batch_y @ A.conj()),
            (op.gram(there), batch_x @ gram_matrix(name)),
        ):
            assert backend.library(out) == backend.library(there)
            host = backend.to_numpy(out)
            assert host.dtype in (dtype, expected_dtype(dtype, op.is_complex))
            assert_near(host, exact, dtype)
        np.testing.assert_array_equal(backend.to_numpy(there), batch_x)
    norms = op.column_norms_squared(there)
    assert backend.library(norms) == backend.library(there)
    assert_near(backend.to_numpy(norms), np.sum(np.abs(A) ** 2, axis=0), dtype)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.everywhere])
@dtypes
def test_array_api_strict(name, dtype):
    compare_with_library(name, dtype, array_api_strict.asarray)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if n != "scipy"])
@dtypes
def test_torch(name, dtype):
    torch = pytest.importorskip("torch")
    compare_with_library(name, dtype, torch.asarray)


def test_array_arguments_of_another_library():
    torch = pytest.importorskip("torch")
    z = random_array((12,), "float64", 0)
    rows = np.array([3, 0, 9])
    for given in (torch.asarray(rows), array_api_strict.asarray(rows), rows.tolist()):
        np.testing.assert_array_equal(
            cofem.operators.DCT(12, given).forward(z), cofem.operators.DCT(12, rows).forward(z)
        )
    kernel = torch.asarray([1.0, 0.5])
    np.testing.assert_array_equal(cofem.operators.Convolution(kernel, 2).kernel, [1.0, 0.5])
    with pytest.raises(TypeError, match="holds a torch array was applied to a numpy array"):
        cofem.operators.Dense(torch.eye(3)).forward(np.ones(3))


def test_all_is_the_public_names():
    module = cofem.operators
    public = {
        n
        for n in dir(module)
        if not n.startswith("_") and type(getattr(module, n)).__name__ != "module"
    }
    assert set(module.__all__) == public
    assert sorted(module.__all__, key=lambda n: (not n.isupper(), n)) == list(module.__all__)


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        (np.ones(3), ValueError, r"DCT.forward: the last axis must have length 4, .*\(3,\)"),
        (np.float64(1.0), (TypeError, ValueError), "DCT.forward"),
        ([1.0] * 4, TypeError, "DCT.forward takes an array, got list"),
        (np.array(["a"] * 4), TypeError, "must hold numbers, got dtype <U1"),
        (np.array([None] * 4), TypeError, "must hold numbers, got dtype object"),
    ],
)
def test_wrong_arguments(argument, error, message):
    with pytest.raises(error, match=message):
        cofem.operators.DCT(4).forward(argument)


@names
def test_to_scipy(name):
    op, A = operator(name), matrix(name)
    scipy_op = op.to_scipy()
    V, W = (random_array((side, 3), "float64", 0) for side in reversed(op.shape))
    assert_near(scipy_op @ V, A @ V, "float64")
    assert_near(scipy_op.H @ W[:, 0], A.conj().T @ W[:, 0], "float64")
    assert_near(scipy_op.rmatmat(W), A.conj().T @ W, "float64")


@names
def test_to_pylops_and_back(name):
    pylops = pytest.importorskip("pylops")
    op, A = operator(name), matrix(name)
    there = op.to_pylops()
    assert isinstance(there, pylops.LinearOperator)
    pylops.utils.dottest(there, *op.shape, complexflag=3 if op.is_complex else 0, rtol=1e-9)
    assert_near(there.todense(), A, "float64")
    back = cofem.operators.as_operator(there)
    assert (back.shape, back.is_complex) == (op.shape, op.is_complex)
    y = random_array((2, op.shape[0]), "float64", 3)
    assert_near(back.adjoint(y), y @ A.conj(), "float64")
