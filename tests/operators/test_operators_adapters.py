"""What users bring: arrays, functions, operators of other libraries."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from operator_cases import assert_near, random_array

from cofem.operators import (
    Convolution,
    Dense,
    Diagonal,
    Fourier,
    Identity,
    Sparse,
    as_operator,
    check_adjoint,
    from_functions,
)
from cofem.operators.norms import estimate_column_norms_squared, norm_squared

A = random_array((4, 6), "float64", 0)


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


# -- functions -------------------------------------------------------------------


def functions(forward=lambda z: z @ A.T, adjoint=lambda y: y @ A, **options):
    return from_functions(forward, adjoint, **{"shape": (4, 6), "dtype": float, **options})


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


# -- the dot test and norms -----------------------------------------------------


@pytest.mark.parametrize(
    "adjoint",
    [lambda y: 2 * (y @ A), lambda y: -(y @ A), lambda y: y @ A[::-1], lambda y: 1.001 * (y @ A)],
)
def test_wrong_adjoints_are_found(adjoint):
    with pytest.raises(
        ValueError, match=r"R: adjoint does not match forward: ⟨Φx, y⟩ = .*relative diff"
    ):
        check_adjoint(functions(adjoint=adjoint), name="R")


def test_a_wrong_factor_is_found_at_any_size_and_in_single_precision():
    n = 200_000
    op = from_functions(lambda z: z, lambda y: 1.01 * y, (n, n), float)
    with pytest.raises(ValueError, match="adjoint does not match forward"):
        check_adjoint(op, like=np.empty(0, np.float32))


def test_a_forgotten_conjugate_is_found():
    op = from_functions(lambda z: z * 1j, lambda y: y * 1j, (3, 3), complex)
    with pytest.raises(ValueError, match="adjoint does not match forward"):
        check_adjoint(op)


def test_functions_that_write_into_their_argument_are_found():
    def forward(z):
        z *= 2
        return z @ A.T

    with pytest.raises(ValueError, match="phi: forward changes its argument in place"):
        check_adjoint(functions(forward))


def test_zero_operator_passes():
    check_adjoint(from_functions(lambda z: 0 * z, lambda y: 0 * y, (3, 3), float))


@pytest.mark.parametrize("like", [np.empty(0), np.empty(0, np.float32)])
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (Dense(random_array((700, 20), "complex128", 0)), True),
        (Dense(random_array((20, 700), "complex128", 0)), True),
        (Dense(random_array((600, 700), "float64", 0)), False),
        (Dense(random_array((600, 700), "complex128", 0)), False),
    ],
)
def test_estimated_column_norms(op, exact, like):
    estimate = estimate_column_norms_squared(op, like)
    truth = np.sum(np.abs(op.matrix) ** 2, axis=0)
    if exact:
        np.testing.assert_allclose(estimate, truth, rtol=1e-4)
    else:
        assert np.all(estimate > 0)
        error = np.std(estimate / truth)  # √(2/64) for real, √(1/64) for complex
        assert error < 0.22
        assert estimate.dtype == like.dtype


@pytest.mark.parametrize(("dtype", "claimed"), [("float64", 2 / 64), ("complex128", 1 / 64)])
def test_estimated_norms_are_as_good_as_documented(dtype, claimed):
    op = Dense(random_array((600, 3000), dtype, 0))
    ratio = estimate_column_norms_squared(op, np.empty(0)) / op.column_norms_squared()
    # 3,000 columns: three standard errors of a mean and of a standard deviation.
    assert ratio.mean() == pytest.approx(1, abs=3 * np.sqrt(claimed / 3000) + 0.005)
    assert ratio.std() == pytest.approx(np.sqrt(claimed), rel=0.06)
    assert np.mean((ratio < 0.5) | (ratio > 2)) < 0.002
    one_entry = Diagonal(random_array((600,), dtype, 1))
    np.testing.assert_allclose(
        estimate_column_norms_squared(one_entry, np.empty(0)), one_entry.column_norms_squared()
    )


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_estimated_norms_depend_on_the_seed_alone(kind, monkeypatch):
    op = Convolution(np.array([1.0, -0.5, 0.25]), 600)
    like = np.empty(0) if kind == "numpy" else pytest.importorskip("torch").empty(0).double()
    first = estimate_column_norms_squared(op, like, seed=1)
    assert bool((first == estimate_column_norms_squared(op, like, seed=1)).all())
    assert not bool((first == estimate_column_norms_squared(op, like, seed=2)).all())
    monkeypatch.setattr("cofem.operators.norms.BLOCK", 600 * 7)  # less memory, other blocks
    again = estimate_column_norms_squared(op, like, seed=1)
    np.testing.assert_allclose(np.asarray(again), np.asarray(first), rtol=1e-12)


def test_estimates_in_blocks(monkeypatch):
    op = Convolution(np.ones(3), 600)
    monkeypatch.setattr("cofem.operators.norms.BLOCK", 600 * 7)
    estimate = estimate_column_norms_squared(op, np.empty(0), n_probes=640)
    np.testing.assert_allclose(estimate.mean(), op.column_norms_squared().mean(), rtol=0.05)
    tall = Dense(random_array((600, 20), "float64", 0))
    np.testing.assert_allclose(
        estimate_column_norms_squared(tall, np.empty(0)), tall.column_norms_squared()
    )


@pytest.mark.parametrize(
    "op", [Dense(A), Fourier(8, [0, 1]), Diagonal(np.array([1.0, -5.0])), 0 * Identity(3)]
)
def test_norm_squared(op):
    truth = np.linalg.norm(op.to_dense(), 2) ** 2
    estimate = norm_squared(op)
    assert isinstance(estimate, float)
    assert truth * 0.98 <= estimate <= truth * (1 + 1e-9) + 1e-300
