"""Wrong uses of arrays that the type checker must report; ``mypy`` checks this file too.

Every wrong line is marked by the error it must give. mypy objects to a mark where there is
no error, so lint fails if the types become too weak to see one of these.
"""

import numpy as np

from cofem.backend import Array, Namespace, SameArray


def right(x: Array, xp: Namespace) -> float:
    """Return a number by operations that every array library has."""
    y = 2 * x[..., 0] - xp.sum(x * x, axis=-1) / x.shape[-1]
    return float(xp.max(xp.where(y > 0, y, -y)))


def same(x: SameArray) -> SameArray:
    """Return an array of the library that was given."""
    return x


def wrong(x: Array, maybe: Array | None, xp: Namespace) -> float:
    """Use what not every array has; never called."""
    x.astype("float32")  # type: ignore[attr-defined]  # NumPy's and JAX's, not torch's
    x.sharpe  # type: ignore[attr-defined]  # noqa: B018
    x.shape + 1  # type: ignore[operator]
    x.ndim = 2  # type: ignore[misc]
    maybe.shape  # type: ignore[union-attr]  # noqa: B018
    xp.sqrt(x).detach()  # type: ignore[attr-defined]
    np.linalg.inv(x)  # type: ignore[call-overload]
    of_numpy: np.ndarray = same(np.ones(2))
    of_numpy = same(x)  # type: ignore[arg-type]
    number: Array = of_numpy.size  # type: ignore[assignment]
    return xp.sum(number)  # type: ignore[return-value]
