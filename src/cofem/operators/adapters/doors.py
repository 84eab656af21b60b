"""From what users have to operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from cofem import backend
from cofem.operators.adapters.jax_operators import LineaxOperator, is_lineax
from cofem.operators.adapters.matvec import Matvec
from cofem.operators.adapters.physics import from_physics, is_physics
from cofem.operators.base import LinearOperator
from cofem.operators.dense import Dense
from cofem.operators.sparse import Sparse

ACCEPTED = (
    "a 2-D array or tensor, a SciPy sparse array, a SciPy or PyLops LinearOperator "
    "(shape, matvec, rmatvec), a lineax operator, a deepinv physics, or one of cofem.operators"
)


def as_operator(phi: Any, name: str = "phi") -> LinearOperator:
    """Return ``phi`` as an operator.

    Parameters
    ----------
    phi : array (N, D), SciPy sparse array, or operator
        Operators of SciPy and PyLops (``shape``, ``matvec``, ``rmatvec``), lineax and
        deepinv are recognised by their methods; a deepinv physics needs its ``img_size``
        (else see :func:`from_physics`). Nested lists and other array-likes count as NumPy
        arrays.
    name : str
        What the errors call it.

    Returns
    -------
    LinearOperator of shape (N, D)

    Examples
    --------
    >>> as_operator([[1, 2, 3], [4, 5, 6]])
    Dense(shape=(2, 3))
    """
    if isinstance(phi, LinearOperator):
        return phi
    if scipy.sparse.issparse(phi):
        return Sparse(phi, name=name)
    if backend.is_array(phi):
        if "sparse" in str(getattr(phi, "layout", "")):
            raise TypeError(
                f"{name} is a sparse torch tensor; pass a SciPy sparse array or {name}.to_dense()"
            )
        if getattr(phi, "requires_grad", False):
            phi = phi.detach()  # the posterior is not differentiated through
        return Dense(phi, name=name)
    if multiplies_vectors(phi):
        return _foreign(phi, name)
    if isinstance(phi, (list, tuple)) or hasattr(phi, "__array__"):
        try:
            table = np.asarray(phi)
        except ValueError:
            raise ValueError(f"{name} is not a rectangular table of numbers") from None
        return Dense(table, name=name)
    hint = ""
    if isinstance(phi, type):
        hint = f" itself rather than an instance, {phi.__name__}(…)"
    elif callable(phi):
        hint = "; two functions make an operator: from_functions(forward, adjoint, shape, dtype)"
    raise TypeError(f"{name} must be {ACCEPTED}; got {_kind(phi)}{hint}")


def multiplies_vectors(x: Any) -> bool:
    """Whether ``x`` has the methods of an operator of SciPy, PyLops, lineax or deepinv.

    Examples
    --------
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> multiplies_vectors(aslinearoperator(np.eye(2))), multiplies_vectors([1, 2])
    (True, False)
    """
    if isinstance(x, type):
        return False
    has_products = all(hasattr(x, part) for part in ("shape", "matvec", "rmatvec"))
    return has_products or is_lineax(x) or is_physics(x)


def _foreign(phi: Any, name: str) -> LinearOperator:
    if is_lineax(phi):
        return LineaxOperator(phi, name=name)
    if is_physics(phi):
        return from_physics(phi, name=name)
    return Matvec(phi, name=name)


def _kind(x: Any) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__
