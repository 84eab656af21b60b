"""Operators for other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse.linalg

    from cofem.operators.base import LinearOperator


def to_scipy(op: LinearOperator) -> scipy.sparse.linalg.LinearOperator:
    """Return ``op`` as a ``scipy.sparse.linalg.LinearOperator``.

    Examples
    --------
    >>> from cofem.operators import DCT
    >>> from scipy.sparse.linalg import lsqr
    >>> y = DCT(8).forward(np.arange(8.0))
    >>> lsqr(DCT(8).to_scipy(), y)[0].round(6)
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    from scipy.sparse.linalg import LinearOperator as SciPyOperator

    return SciPyOperator(
        shape=op.shape,
        dtype=np.complex128 if op.is_complex else np.float64,
        matvec=lambda v: op.forward(np.ravel(v)),
        rmatvec=lambda v: op.adjoint(np.ravel(v)),
        matmat=lambda V: op.forward(np.ascontiguousarray(V.T)).T,
        rmatmat=lambda V: op.adjoint(np.ascontiguousarray(V.T)).T,
    )


def to_pylops(op: LinearOperator) -> Any:
    """Return ``op`` as a ``pylops.LinearOperator``.

    Raises
    ------
    ImportError
        Where PyLops is not installed.

    Examples
    --------
    >>> from cofem.operators import Convolution
    >>> blur = Convolution([1.0, 0.5], 2).to_pylops()
    >>> (blur @ np.array([1.0, 1.0])).round(6)
    array([1. , 1.5])
    """
    try:
        import pylops
    except ImportError:
        raise ImportError("to_pylops needs PyLops: pip install pylops") from None
    return pylops.LinearOperator(Op=to_scipy(op))
