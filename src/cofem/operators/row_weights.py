"""Rows of an operator, each times a number of its own."""

from __future__ import annotations

import scipy.sparse

from cofem import backend
from cofem.backend import Array
from cofem.operators.algebra import Product
from cofem.operators.base import LinearOperator
from cofem.operators.dense import Dense
from cofem.operators.elementary import Diagonal
from cofem.operators.sparse import Sparse


def scaled_rows(op: LinearOperator, factors: Array) -> LinearOperator:
    """Return diag(factors) Φ; a stored matrix is written out, so that it stays one.

    Parameters
    ----------
    op : LinearOperator (N, D)
    factors : array (N,)
        Real.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_rows(Dense(np.ones((2, 2))), np.array([1.0, 3.0])).to_dense()
    array([[1., 1.],
           [3., 3.]])
    """
    if isinstance(op, Dense):
        xp = backend.namespace(op.matrix)
        dtype = backend.real_dtype(op.matrix.dtype, xp)
        return Dense(op.matrix * xp.astype(factors, dtype)[:, None])
    if isinstance(op, Sparse):
        return Sparse(scipy.sparse.diags_array(backend.to_numpy(factors)) @ op.matrix)
    return Product(Diagonal(factors), op)
