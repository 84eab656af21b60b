"""Dense and sparse matrices."""

import numpy as np
import pytest
import scipy.sparse
from operator_tools import assert_near, random_array

from cofem.operators import Dense, Diagonal, Identity, Sparse


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.ones(3), ValueError, r"phi must be 2-D, got an array of shape \(3,\)"),
        (np.ones((2, 2, 2)), ValueError, "phi must be 2-D"),
        (np.ones((0, 3)), ValueError, "phi is empty"),
        (np.ones((3, 0)), ValueError, "phi is empty"),
        (np.array([[1.0, np.nan]]), ValueError, "phi contains NaN or Inf"),
        (np.array([[1.0, -np.inf]]), ValueError, "phi contains NaN or Inf"),
        (np.array([[1j, complex(0, np.inf)]]), ValueError, "phi contains NaN or Inf"),
        (np.array([["a", "b"]]), TypeError, "phi must hold numbers, got dtype <U1"),
        (np.array([[1, None]]), TypeError, "phi must hold numbers, got dtype object"),
        (np.ma.masked_invalid([[1.0, np.nan]]), TypeError, "phi is a masked array"),
        ([[1.0, 2.0]], TypeError, "phi must be a 2-D array of numbers, got list"),
    ],
)
def test_dense_refuses(matrix, error, message):
    with pytest.raises(error, match=message):
        Dense(matrix)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.eye(2), TypeError, "phi must be a SciPy sparse array, got ndarray"),
        (scipy.sparse.csr_array((0, 3)), ValueError, "phi is empty"),
        (scipy.sparse.coo_array([1.0, 2.0]), ValueError, "phi must be 2-D"),
        (scipy.sparse.csr_array([[1.0, np.inf]]), ValueError, "phi contains NaN or Inf"),
    ],
)
def test_sparse_refuses(matrix, error, message):
    with pytest.raises(error, match=message):
        Sparse(matrix)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, bool, np.float16, np.longdouble])
def test_other_numbers_become_double(dtype):
    matrix = np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    assert Dense(matrix).matrix.dtype == np.float64
    np.testing.assert_array_equal(Dense(matrix).forward(np.ones(3)), [2, 2])


def test_large_but_finite_matrices_pass():
    assert Dense(np.full((4, 4), 1e308)).shape == (4, 4)  # the sum overflows


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_sparse_format(format, kind):
    dense = np.array([[1, 0, 2], [0, 0, 3]])
    make = getattr(scipy.sparse, f"{format}_{kind}")
    op = Sparse(make(dense))
    x = random_array((4, 3), "float64", 0)
    assert_near(op.forward(x), x @ dense.T, "float64")
    assert op.forward(x).flags.c_contiguous
    np.testing.assert_array_equal(op.column_norms_squared(), [1, 0, 13])


def test_sparse_does_not_touch_what_it_was_given():
    given = scipy.sparse.csr_array(
        (np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    op = Sparse(given)  # entry (0, 1) is stored twice
    assert given.nnz == 3
    np.testing.assert_array_equal(op.column_norms_squared(), [1, 4])


def test_sparse_in_other_libraries():
    xp = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match="works on NumPy arrays and torch tensors"):
        Sparse(scipy.sparse.eye_array(3)).forward(xp.ones(3))


def test_gram_matrix_is_kept_only_where_it_is_smaller():
    rng = np.random.default_rng(0)
    for shape, kept in (((30, 10), True), ((10, 30), False)):
        op = Dense(rng.standard_normal(shape))
        op.gram(np.ones(shape[1]))
        assert bool(op._grams._made) is kept


def test_empty_batches():
    for op in (Dense(np.ones((2, 3))), Sparse(scipy.sparse.csr_array(np.ones((2, 3))))):
        assert op.forward(np.empty((0, 3))).shape == (0, 2)
        assert op.gram(np.empty((4, 0, 3))).shape == (4, 0, 3)


def test_elementary_refusals():
    with pytest.raises(ValueError, match="weights contains NaN or Inf"):
        Diagonal(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="weights must be 1-D"):
        Diagonal(np.eye(2))
    with pytest.raises(ValueError, match="n must be a positive integer"):
        Identity(-1)


def test_torch_matrices_stay_where_they_are():
    torch = pytest.importorskip("torch")
    matrix = torch.arange(6).reshape(2, 3)
    op = Dense(matrix)
    out = op.forward(torch.ones(3, dtype=torch.float32))
    assert (out.dtype, out.tolist()) == (torch.float32, [3.0, 12.0])
    with pytest.raises(ValueError, match="phi contains NaN or Inf"):
        Dense(torch.tensor([[float("nan")]]))
