"""Operators made of operators, against matrices made of matrices."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from operator_tools import assert_near, conv_matrix, random_array

from cofem.operators import (
    DCT,
    Convolution,
    Dense,
    Diagonal,
    Fourier,
    Hankel,
    Identity,
    Restriction,
    Sparse,
    Toeplitz,
    Wavelet,
    block_diagonal,
    from_functions,
    hstack,
    kronecker,
    stack,
)
from cofem.operators.algebra import is_scalar

N = 6
ORDER = [3, 0, 5, 1, 3, 2]  # one row twice, one never
TWICE = stack([Identity(N), 2 * Identity(N)])


@st.composite
def leaves(draw):
    seed = draw(st.integers(0, 50))
    kind = draw(st.sampled_from(["dense", "complex", "diagonal", "convolution", "fourier", "dct"]))
    A = random_array((N, N), "complex128" if kind == "complex" else "float64", seed)
    if kind == "diagonal":
        return Diagonal(A[0]), np.diag(A[0])
    if kind == "convolution":
        return Convolution(A[0], N), conv_matrix(A[0], N)
    if kind == "fourier":
        return Fourier(N), np.fft.fft(np.eye(N), norm="ortho").T
    if kind == "dct":
        return DCT(N), DCT(N).to_dense()
    return Dense(A), A


def combine(children):
    pairs = st.tuples(children, children)
    scalars = st.sampled_from([2, -0.5, 1 + 2j, np.float32(3), np.array(0.25)])
    return st.one_of(
        children.map(lambda c: (c[0].H, c[1].conj().T)),
        children.map(lambda c: (-c[0], -c[1])),
        children.map(lambda c: (c[0].T, c[1].T)),
        children.map(lambda c: (c[0].conj(), c[1].conj())),
        children.map(lambda c: (c[0][ORDER, ::-1], c[1][ORDER, ::-1])),
        st.tuples(children, scalars).map(lambda p: (p[0][0] / p[1], p[0][1] / p[1])),
        pairs.map(
            lambda p: (
                hstack([p[0][0], p[1][0]]) @ block_diagonal([p[1][0], p[0][0]]) @ TWICE,
                np.hstack([p[0][1] @ p[1][1], p[1][1] @ p[0][1]]) @ TWICE.to_dense(),
            )
        ),
        pairs.map(lambda p: (p[0][0] @ p[1][0], p[0][1] @ p[1][1])),
        pairs.map(lambda p: (p[0][0] + p[1][0], p[0][1] + p[1][1])),
        pairs.map(lambda p: (p[0][0] - p[1][0], p[0][1] - p[1][1])),
        st.tuples(children, scalars).map(lambda p: (p[1] * p[0][0], p[1] * p[0][1])),
        pairs.map(
            lambda p: (
                stack([p[0][0], p[1][0]]).H @ stack([p[1][0], p[0][0]]),
                np.vstack([p[0][1], p[1][1]]).conj().T @ np.vstack([p[1][1], p[0][1]]),
            )
        ),
    )


@settings(max_examples=120, deadline=None)
@given(st.recursive(leaves(), combine, max_leaves=5), st.booleans())
def test_any_expression(pair, complex_input):
    op, A = pair
    dtype = "complex128" if complex_input else "float64"
    x, y = random_array((2, N), dtype, 1), random_array((2, N), dtype, 2)
    # Cancellation in a sum is judged against its terms.
    scale = 1e-12 * max(1.0, np.linalg.norm(A)) + 1e-9
    np.testing.assert_allclose(op.forward(x), x @ A.T, atol=scale, rtol=1e-9)
    np.testing.assert_allclose(op.adjoint(y), y @ A.conj(), atol=scale, rtol=1e-9)
    gram = x @ A.T @ A.conj()
    np.testing.assert_allclose(op.gram(x), gram, atol=1e-10 * (1 + np.abs(gram).max()), rtol=1e-9)
    norms = np.sum(np.abs(A) ** 2, axis=0)
    np.testing.assert_allclose(
        op.column_norms_squared(), norms, atol=1e-10 * (1 + norms.max()), rtol=1e-9
    )
    if not op.is_complex:
        assert not np.iscomplexobj(op.forward(x.real.copy()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: a @ a, r"a @ b: the shapes \(2, 3\) and \(2, 3\) do not fit, 3 is not 2"),
        (lambda a, b: a + b, r"a \+ b: the shapes \(2, 3\) and \(3, 3\) differ"),
        (lambda a, b: stack([a, Identity(4)]), r"same number of columns D .* \[3, 4\]"),
        (lambda a, b: stack([]), "operators is empty"),
        (lambda a, b: float("nan") * a, "factor of an operator must be finite"),
        (lambda a, b: hstack([a, b]), r"same number of rows N .* \[2, 3\]"),
        (lambda a, b: hstack([]), "operators is empty: hstack"),
        (lambda a, b: block_diagonal([]), "operators is empty: block_diagonal"),
        (lambda a, b: kronecker(), "at least one operator"),
        (lambda a, b: a @ np.ones((2, 3)), r"columns, \(D, K\) with D = 3; for rows use op.f"),
        (lambda a, b: a @ np.ones((2, 2)), r"x has shape \(2, 2\) and the operator \(2, 3\)"),
        (lambda a, b: np.ones((3, 3)) @ a, "the last axis must have length 2"),
        (lambda a, b: a @ np.array(2.0), "a number scales"),
        (lambda a, b: a[[0, 2]], "rows must lie between 0 and 1"),
        (lambda a, b: a[:, [True, False]], r"columns: a boolean mask must have shape \(3,\)"),
        (lambda a, b: a[2:], "rows selects nothing"),
        (lambda a, b: Toeplitz([1.0, 2.0], [2.0]), "share their first entry, got 2.0 and 1.0"),
        (lambda a, b: Hankel([1.0, 2.0], [1.0]), "last entry of column, got 1.0 and 2.0"),
    ],
)
def test_wrong_shapes(make, message):
    with pytest.raises(ValueError, match=message):
        make(Dense(np.ones((2, 3))), Identity(3))


@pytest.mark.parametrize("other", ["a", None, [1, 2]])
def test_wrong_partners(other):
    op = Identity(3)
    for combination in (
        lambda: op * other,
        lambda: other * op,
        lambda: op + other,
        lambda: op - other,
        lambda: op @ other,
    ):
        with pytest.raises(TypeError):
            combination()


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1, TypeError, r"rows: one number selects a vector.*use \[1\]"),
        ((slice(None), np.int64(2)), TypeError, "columns: one number selects a vector"),
        (None, TypeError, "rows must be a slice, integers or a boolean mask, got None"),
        (([0], [0], [0]), IndexError, "an operator has two axes, got 3 indices"),
        ([0.5], TypeError, "rows must be integers or a boolean mask, got dtype float64"),
    ],
)
def test_wrong_selections(key, error, message):
    with pytest.raises(error, match=message):
        Identity(3)[key]


def test_operators_are_not_looped_over():
    with pytest.raises(TypeError, match="not iterable"):
        iter(Identity(3))


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError, match="an operator was divided by zero"):
        Identity(3) / 0
    with pytest.raises(TypeError):
        Identity(3) / np.ones(3)


def test_matrices_of_other_libraries_on_either_side():
    A, S = random_array((N, N), "float64", 0), scipy.sparse.eye_array(N, k=1)
    op, dense = DCT(N), DCT(N).to_dense()
    for made, exact in (
        (op @ S, dense @ S), (S @ op, S @ dense), (op + S, dense + S.toarray()),
        (S - op, S.toarray() - dense), (op - A, dense - A), (A + op, A + dense),
        (op @ scipy.sparse.linalg.aslinearoperator(A), dense @ A),
        (sum([op, op]), 2 * dense),
    ):  # fmt: skip
        assert isinstance(made, type(op).__mro__[1])
        assert_near(made.to_dense(), exact, "float64")
    assert isinstance(op @ A, np.ndarray)


def test_torch_on_either_side():
    torch = pytest.importorskip("torch")
    A = random_array((3, N), "float64", 0)
    assert_near((torch.asarray(A) @ Fourier(N)).numpy(), A @ Fourier(N).to_dense(), "float64")
    assert_near((Fourier(N) @ torch.asarray(A.T)).numpy(), Fourier(N).to_dense() @ A.T, "float64")


def test_selections_stay_what_they_were():
    """Their Gram products and norms stay as cheap and exact as before."""
    assert isinstance(Dense(np.ones((3, 2)))[[0, 2]], Dense)
    assert isinstance(Sparse(scipy.sparse.eye_array(4))[1:, :2], Sparse)
    assert isinstance(DCT((4, 4))[::3], DCT)
    assert isinstance(Fourier(8)[[1, 2]], Fourier)
    assert Identity(3)[:] is not None
    assert Identity(3)[:, :].shape == (3, 3)


def test_transposing_twice_and_real_operators():
    op = Fourier(4)
    assert op.T.T is op
    assert op.conj().conj() is op
    assert op.T.H.to_dense() == pytest.approx(op.to_dense().conj())
    real = DCT(4)
    assert real.T.op is real
    assert real.conj() is real


@pytest.mark.parametrize(
    "op",
    [
        Restriction(700, np.arange(0, 700, 2)) @ Convolution([1.0, 0.5], 700),
        Diagonal(np.arange(600.0)) @ DCT(600),
        hstack([DCT(600), Identity(600), Convolution([1.0, 2.0], 600)]),
        block_diagonal([DCT(600), Fourier(600)]),
        kronecker(DCT(30), Convolution([1.0, 2.0], 40)),
        Wavelet(1024, "db4")[:, ::2],
        Toeplitz(np.arange(1.0, 701.0), np.append(1.0, np.arange(600.0))),
    ],
)
def test_large_combinations_know_their_norms(op):
    assert op.exact_column_norms
    exact = np.sum(np.abs(op.to_dense()) ** 2, axis=0)
    np.testing.assert_allclose(op.column_norms_squared(), exact, rtol=1e-9, atol=1e-9 * exact.max())


def test_small_entries_behind_large_ones_keep_their_norms():
    column = np.append(1e9, np.full(5, 1e-3))
    row = np.append(1e9, np.zeros(9))
    exact = np.sum(scipy.linalg.toeplitz(column, row) ** 2, axis=0)
    np.testing.assert_allclose(Toeplitz(column, row).column_norms_squared(), exact, rtol=1e-12)


def test_functions_in_combinations_are_still_tested():
    half = from_functions(lambda z: z / 2, lambda y: y / 2, (N, N), float)
    for made in (half.T, half[:2], hstack([half, half]), block_diagonal([half, DCT(2)]), half / 2):
        assert not made.trusted
        assert not made.splits_rows


def test_attributes_follow_the_parts():
    dense, complex_op = Dense(np.ones((3, 3))), Fourier(3)
    assert not (dense @ Identity(3)).splits_rows
    assert (Identity(3) + DCT(3)).splits_rows
    assert (dense + complex_op).is_complex
    assert (1j * dense).is_complex
    assert not (2 * dense).is_complex
    assert dense.H.H is dense
    assert stack([dense]) is dense
    assert stack([np.eye(3), scipy.sparse.eye_array(3)]).shape == (6, 3)


def test_large_products_estimate_their_norms():
    op = Convolution([1.0, 0.5], 600) @ DCT(600)
    assert not op.exact_column_norms
    exact = np.sum(op.to_dense() ** 2, axis=0)
    ratio = op.column_norms_squared() / exact
    assert np.all(ratio > 0)
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    diagonal = Diagonal(np.arange(600.0))
    assert (DCT(600) @ diagonal).exact_column_norms
    np.testing.assert_allclose((DCT(600) @ diagonal).column_norms_squared(), np.arange(600.0) ** 2)


def test_scalars_keep_the_precision():
    x = np.ones(3, np.float32)
    for factor in (2, 2.0, np.float64(2), np.array(2.0), np.int64(2)):
        assert is_scalar(factor)
        assert (factor * Identity(3)).forward(x).dtype == np.float32
        assert (Identity(3) * factor).forward(x).tolist() == [2, 2, 2]
    assert not is_scalar(np.ones(2))


def test_matmul_with_a_vector_applies():
    assert_near(Diagonal(np.arange(3)) @ np.ones(3), np.arange(3.0), "float64")
