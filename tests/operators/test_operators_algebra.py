"""Operators made of operators, against matrices made of matrices."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from operator_cases import assert_near, conv_matrix, random_array

from cofem.operators import DCT, Convolution, Dense, Diagonal, Fourier, Identity, stack
from cofem.operators.algebra import is_scalar

N = 6


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
    ],
)
def test_wrong_shapes(make, message):
    with pytest.raises(ValueError, match=message):
        make(Dense(np.ones((2, 3))), Identity(3))


@pytest.mark.parametrize("other", ["a", None, [1, 2]])
def test_wrong_partners(other):
    op = Identity(3)
    for combination in (
        lambda: op * other, lambda: other * op, lambda: op + other, lambda: op - other,
        lambda: op @ other,
    ):
        with pytest.raises(TypeError):
            combination()


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
    np.testing.assert_allclose(
        (DCT(600) @ diagonal).column_norms_squared(), np.arange(600.0) ** 2
    )


def test_scalars_keep_the_precision():
    x = np.ones(3, np.float32)
    for factor in (2, 2.0, np.float64(2), np.array(2.0), np.int64(2)):
        assert is_scalar(factor)
        assert (factor * Identity(3)).forward(x).dtype == np.float32
        assert (Identity(3) * factor).forward(x).tolist() == [2, 2, 2]
    assert not is_scalar(np.ones(2))


def test_matmul_with_a_vector_applies():
    assert_near(Diagonal(np.arange(3)) @ np.ones(3), np.arange(3.0), "float64")
