"""Products of rows with a matrix, for every mixture of real and complex."""

from __future__ import annotations

from cofem import backend
from cofem.backend import Array


def times(x: Array, matrix: Array) -> Array:
    """Return ``x @ matrix`` for rows x of shape (…, D) and a matrix (D, N).

    A real matrix is multiplied with the real and the imaginary parts of complex rows. Converting
    the matrix would copy it at every product and double the arithmetic, and torch refuses it.

    Examples
    --------
    >>> import numpy as np
    >>> times(np.array([1j, 2.0]), np.eye(2))
    array([0.+1.j, 2.+0.j])
    """
    xp = backend.namespace(x)
    # One matrix product over all rows, however many leading axes there are.
    rows = xp.reshape(x, (-1, x.shape[-1]))
    if backend.is_complex(x) and not backend.is_complex(matrix):
        both = xp.concat([xp.real(rows), xp.imag(rows)], axis=0) @ matrix
        n = rows.shape[0]
        out = both[:n, :] + 1j * both[n:, :]
    else:
        if backend.is_complex(matrix) and not backend.is_complex(x):
            rows = xp.astype(rows, matrix.dtype)
        out = rows @ matrix
    return xp.reshape(out, (*x.shape[:-1], matrix.shape[1]))
