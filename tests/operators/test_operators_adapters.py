"""What users bring: arrays, functions, operators of other libraries."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from adapter_cases import A, functions
from operator_tools import assert_near, random_array

from cofem.operators import (
    Dense,
    Identity,
    Sparse,
    as_operator,
    check_adjoint,
    from_functions,
)


@pytest.mark.parametrize(
    ("phi", "kind"),
    [
        (A, Dense),
        (A.tolist(), Dense),
        (tuple(map(tuple, A)), Dense),
        (scipy.sparse.csc_array(A), Sparse),
        (scipy.sparse.csc_matrix(A), Sparse),
        (Identity(4), Identity),
    ],
)
def test_as_operator(phi, kind):
    assert isinstance(as_operator(phi), kind)
    if kind is not Identity:
        assert_near(as_operator(phi).to_dense(), A, "float64")


def test_as_operator_of_np_matrix_and_array_likes():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(A)
    op = as_operator(matrix)
    assert op.forward(np.ones(6)).shape == (4,)

    class Frame:
        def __array__(self, dtype=None, copy=None):
            return A

    assert isinstance(as_operator(Frame()), Dense)


def test_as_operator_passes_operators_through():
    op = Identity(3)
    assert as_operator(op) is op


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        ("phi", TypeError, "R must be a 2-D array or tensor, a SciPy sparse array.*got str"),
        (None, TypeError, "got NoneType"),
        (3.0, TypeError, "got float"),
        (lambda z: z, TypeError, "got function"),
        ([[1, 2], [3]], ValueError, "R is not a rectangular table of numbers"),
        ([["a", "b"]], TypeError, "R must hold numbers, got dtype <U1"),
        (np.array([[None]]), TypeError, "R must hold numbers, got dtype object"),
        ([1.0, 2.0], ValueError, r"R must be 2-D, got an array of shape \(2,\)"),
        (np.array([[np.nan]]), ValueError, "R contains NaN or Inf"),
        (scipy.sparse.csr_array([[np.nan]]), ValueError, "R contains NaN or Inf"),
    ],
)
def test_as_operator_refuses(phi, error, message):
    with pytest.raises(error, match=message):
        as_operator(phi, name="R")


def test_as_operator_refuses_sparse_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="phi is a sparse torch tensor"):
        as_operator(torch.eye(3).to_sparse())


def test_functions_are_checked_operators():
    op = functions()
    assert not op.trusted
    assert not (2 * op).trusted
    check_adjoint(op)
    assert op.forward(np.ones((2, 6), np.float32)).dtype == np.float32


def test_functions_row_by_row_see_vectors():
    shapes = []

    def forward(z):
        shapes.append(z.shape)
        return A @ z

    op = functions(forward, lambda y: A.T @ y, batched=False)
    x = random_array((2, 3, 6), "float64", 0)
    assert_near(op.forward(x), x @ A.T, "float64")
    assert shapes == [(6,)] * 6
    assert op.forward(np.empty((0, 6))).shape == (0, 4)


def test_real_functions_meet_complex_arrays_in_parts():
    seen = []

    def forward(z):
        seen.append(z.dtype)
        return z @ A.T

    x = random_array((2, 6), "complex64", 0)
    out = functions(forward).forward(x)
    assert_near(out, x @ A.T, "complex64")
    assert out.dtype == np.complex64
    assert seen == [np.dtype(np.float32)] * 2


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda z: z * np.nan, r"forward returned shape \(2, 6\), expected \(2, 4\)"),
        (lambda z: z @ A.T * np.nan, "forward returned NaN or Inf"),
        (lambda z: z @ A.T + np.inf, "forward returned NaN or Inf"),
        (lambda z: None, "forward returned NoneType, expected an array"),
        (lambda z: [[1.0] * 4] * 2, "forward returned list, expected an array"),
        (lambda z: z @ A.T * 1j, "forward returned complex numbers for real ones"),
    ],
)
def test_bad_functions(forward, message):
    with pytest.raises(ValueError, match=message):
        functions(forward).forward(np.ones((2, 6)))


def test_bad_adjoint_is_named():
    with pytest.raises(ValueError, match=r"adjoint returned shape \(4,\), expected \(6,\)"):
        functions(adjoint=lambda y: y).adjoint(np.ones(4))
    with pytest.raises(ValueError, match="adjoint returned NaN or Inf"):
        functions(adjoint=lambda y: y @ A * np.nan).adjoint(np.zeros(4))


def test_bad_declarations():
    with pytest.raises(TypeError, match="forward must be a function, got int"):
        from_functions(3, lambda y: y, (2, 2), float)
    with pytest.raises(ValueError, match=r"shape must be \(N, D\), got 5"):
        from_functions(lambda z: z, lambda y: y, 5, float)
    with pytest.raises(TypeError, match="dtype must be numeric"):
        from_functions(lambda z: z, lambda y: y, (2, 2), "U5")
    with pytest.raises(TypeError, match="dtype must be a numeric dtype"):
        from_functions(lambda z: z, lambda y: y, (2, 2), object())


def test_functions_of_torch():
    torch = pytest.importorskip("torch")
    op = from_functions(
        lambda z: torch.fft.fft(z, norm="ortho"),
        lambda y: torch.fft.ifft(y, norm="ortho"),
        (5, 5),
        torch.complex64,
    )
    assert op.is_complex
    check_adjoint(op, like=torch.zeros(0))
    with pytest.raises(ValueError, match="returned an array of numpy, expected torch"):
        functions(lambda z: z.numpy() @ A.T).forward(torch.ones(6, dtype=torch.float64))


# -- SciPy and PyLops ------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_scipy_operators(dtype):
    C = A + 1j * A[::-1]
    for matrix in (A, C):
        op = as_operator(scipy.sparse.linalg.aslinearoperator(matrix))
        x, y = random_array((2, 3, 6), dtype, 0), random_array((2, 3, 4), dtype, 1)
        assert_near(op.forward(x), x @ matrix.T, dtype)
        assert_near(op.adjoint(y), y @ matrix.conj(), dtype)
        assert_near(op.forward(x[0, 0]), x[0, 0] @ matrix.T, dtype)
        assert op.forward(x).dtype.itemsize == (
            x.dtype.itemsize * (2 if op.is_complex and "float" in dtype else 1)
        )
        check_adjoint(op)


def test_pylops():
    pylops = pytest.importorskip("pylops")
    derivative = pylops.FirstDerivative(12, dtype="float64")
    fft = pylops.signalprocessing.FFT(8, dtype="complex128")
    x = random_array((3, 12), "float64", 0)
    op = as_operator(derivative)
    assert_near(op.forward(x), np.stack([derivative @ row for row in x]), "float64")
    for each in (op, as_operator(fft)):
        check_adjoint(each)
        assert not each.trusted
    assert as_operator(fft).is_complex


def test_anything_with_matvec():
    class Bare:
        shape = (4, 6)

        def matvec(self, x):
            return A @ x

        def rmatvec(self, y):
            return (A.T @ y)[:, None]  # a column is fine

    op = as_operator(Bare())
    x = random_array((3, 6), "float64", 0)
    assert_near(op.gram(x), x @ A.T @ A, "float64")
    assert op.forward(np.empty((0, 6))).shape == (0, 4)


def test_scipy_operators_refuse():
    xp = pytest.importorskip("array_api_strict")
    op = as_operator(scipy.sparse.linalg.aslinearoperator(A))
    with pytest.raises(TypeError, match="works on NumPy arrays; got an array of array_api_strict"):
        op.forward(xp.ones(6))
    one_way = scipy.sparse.linalg.LinearOperator((4, 6), matvec=lambda x: A @ x, dtype=float)
    with pytest.raises(TypeError, match="phi does not implement rmatvec"):
        as_operator(one_way).adjoint(np.ones(4))
    nan = scipy.sparse.linalg.LinearOperator((4, 6), matvec=lambda x: A @ x * np.nan, dtype=float)
    with pytest.raises(ValueError, match="phi: matvec returned NaN or Inf"):
        as_operator(nan).forward(np.ones(6))
