"""The squared singular values of Φ with columns of length one, and how y lies along them.

With K = ΦΘ⁻¹Φᴴ, θ the squared lengths of the columns, yᴴ(I + vK)⁻¹y and log|I + vK| follow from
these for every v at once. Small matrices are factorised. For all others a few steps of Lanczos'
process, from y and from random signs, give Gauss rules with the same two sums (Golub & Meurant
2010; Ubaru, Chen & Saad 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal

from cofem import backend
from cofem.backend import Array
from cofem.operators import LinearOperator

# Matrices with at most so many rows or columns, and so many entries, are factorised: it takes
# a fraction of a second.
SMALL, ENTRIES = 512, 1 << 22
# Otherwise: steps from y and from each of so many rows of random signs.
STEPS, PROBES = 40, 8
# Eigenvalues below this share of the largest are rounding; so is a step of Lanczos' process
# whose length is below the second share of it.
LEAST_VALUE, LEAST_STEP = 1e-13, 1e-6


@dataclass(frozen=True)
class Spectrum:
    """Nodes and weights of the two sums.

    Attributes
    ----------
    values : ndarray (m,)
        Eigenvalues of K, or the nodes of Gauss rules.
    energies : ndarray (m,)
        The power of y along each.
    counts : ndarray (m,)
        How many eigenvalues each stands for.
    products : int
        Rows multiplied by Φ or Φᴴ.
    rules : int
        How many Gauss rules the counts are the mean of, after y's own, with as many nodes each;
        0 if they are exact.
    """

    values: np.ndarray
    energies: np.ndarray
    counts: np.ndarray
    products: int = 0
    rules: int = 0

    def quadratic(self, v: float) -> float:
        """Return yᴴ(I + vK)⁻¹y."""
        return float(np.sum(self.energies / (1 + v * self.values)))

    def log_det(self, v: float) -> float:
        """Return log|I + vK|."""
        return float(np.sum(self.counts * np.log1p(v * self.values)))

    def log_det_error(self, v: float) -> float:
        """Return the standard error of that."""
        if not self.rules:
            return 0.0
        terms = (self.counts * np.log1p(v * self.values)).reshape(self.rules + 1, -1)[1:]
        return float(np.std(terms.sum(axis=1), ddof=1) * self.rules**0.5)


def spectrum(operator: LinearOperator, y: Array, unit: Array, seed: int) -> Spectrum:
    """Return the spectrum of Φ with columns divided by √unit, and y (N,) along it."""
    n, d = operator.shape
    if min(n, d) <= SMALL and n * d <= ENTRIES:
        phi = backend.to_numpy(operator.to_dense(y)) / np.sqrt(backend.to_numpy(unit))
        wide = np.complex128 if np.iscomplexobj(phi) else np.float64
        data = backend.to_numpy(y)
        return factorised(phi.astype(wide), data.astype(np.result_type(data, wide)))
    return by_lanczos(operator, y, unit, seed)


def factorised(phi: np.ndarray, y: np.ndarray) -> Spectrum:
    """Return the exact spectrum, from the eigenvalues of the smaller Gram matrix.

    Examples
    --------
    >>> found = factorised(np.diag([2.0, 1.0]), np.array([3.0, 4.0]))
    >>> found.quadratic(1.0), 9 / 5 + 16 / 2
    (9.8, 9.8)
    >>> bool(np.isclose(found.log_det(1.0), np.log(5 * 2)))
    True
    """
    n, d = phi.shape
    if n <= d:
        values, vectors = eigh(phi @ phi.conj().T)
        along = vectors.conj().T @ y
    else:
        values, vectors = eigh(phi.conj().T @ phi)
        seen = values > LEAST_VALUE * values[-1]
        root = np.sqrt(np.where(seen, values, 1.0))
        along = np.where(seen, vectors.conj().T @ (phi.conj().T @ y) / root, 0.0)
    values = np.where(values > LEAST_VALUE * max(values[-1], 0.0), values, 0.0)
    energies = np.abs(along) ** 2
    rest = max(float(np.sum(np.abs(y) ** 2) - energies.sum()), 0.0) if n > d else 0.0
    return Spectrum(
        np.append(values, 0.0), np.append(energies, rest), np.ones(len(values) + 1), min(n, d)
    )


def by_lanczos(operator: LinearOperator, y: Array, unit: Array, seed: int) -> Spectrum:
    """Return Gauss rules: y's own, and the mean of those of random signs."""
    xp = backend.namespace(y)
    n = operator.shape[0]
    signs = backend.Random(seed, 11).signs((PROBES, n), y)
    rows = xp.concat([y[None, :], xp.astype(signs, y.dtype)], axis=0)
    inverse = 1 / unit

    def apply(q: Array) -> Array:
        product: Array = operator.forward(inverse * operator.adjoint(q))
        return product

    rules, products = _gauss_rules(apply, rows)
    (values, energies), *others = rules
    empty = [np.zeros(len(v)) for v, _ in others]
    return Spectrum(
        np.concatenate([values, *(v for v, _ in others)]),
        np.concatenate([energies, *empty]),
        np.concatenate([np.zeros(len(values)), *(w / PROBES for _, w in others)]),
        products,
        PROBES,
    )


def _gauss_rules(
    apply: Callable[[Array], Array], rows: Array
) -> tuple[list[tuple[np.ndarray, np.ndarray]], int]:
    """Return nodes and weights of qᴴ f(K) q for every row q, and the products."""
    xp = backend.namespace(rows)

    def size(x: Array) -> Array:
        return xp.sqrt(xp.sum(backend.abs_squared(x), axis=-1, keepdims=True))

    lengths = size(rows)
    q, before, step = rows / xp.where(lengths > 0, lengths, 1 + 0 * lengths), 0 * rows, 0 * lengths
    diagonal, beside, products, largest = [], [], 0, np.zeros(len(backend.to_numpy(lengths)))
    for _ in range(min(STEPS, rows.shape[-1])):
        w = apply(q) - step * before
        products += 2 * rows.shape[0]
        a = xp.sum(backend.real(backend.conj(q) * w), axis=-1, keepdims=True)
        w = w - a * q
        step = size(w)
        both = backend.to_numpy(xp.concat([a, step], axis=1)).astype(np.float64)
        largest = np.maximum(largest, both.sum(axis=1))
        going = both[:, 1] > LEAST_STEP * largest  # the others have found all that their row sees
        diagonal.append(both[:, 0])
        beside.append(np.where(going, both[:, 1], 0.0))
        if not going.any():
            break
        on = backend.from_numpy(going[:, None].astype(np.float64), lengths)
        on = xp.astype(on, lengths.dtype)
        step = step * on
        before, q = q, w * on / xp.where(step > 0, step, 1 + 0 * step)
    energy = backend.to_numpy(lengths)[:, 0].astype(np.float64) ** 2
    rules = []
    for a, b, e in zip(np.array(diagonal).T, np.array(beside).T, energy, strict=True):
        values, vectors = eigh_tridiagonal(a, b[:-1])
        rules.append((np.maximum(values, 0.0), e * vectors[0] ** 2))
    return rules, products
