"""Coils: their noise, and fewer of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofem.mri.scanner.noise import farthest_power

PLENTY = 8  # coils up to which all are kept
# A combination of coils is kept if it has this much of the weakest one's power, which is noise,
# and this much of the strongest one's.
ABOVE_NOISE, NOTHING = 1.1, 1e-6
LOUD = 3.0  # times the median noise of the coils, from which a coil's own noise is minded


def noise_covariance(noise: Any) -> np.ndarray:
    """Return the covariance E[n nᴴ] of the coils from a scan without excitation.

    Parameters
    ----------
    noise : array (coils, …)
        Complex samples of noise alone.

    Returns
    -------
    array (coils, coils)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n = rng.standard_normal((2, 9999)) + 1j * rng.standard_normal((2, 9999))
    >>> np.round(np.abs(noise_covariance(n * np.array([[1], [3]]))))
    array([[ 2.,  0.],
           [ 0., 18.]])
    """
    n = np.asarray(noise)
    if n.ndim < 2:
        raise ValueError(f"noise has shape {n.shape}; expected (coils, samples)")
    n = n.reshape(len(n), -1)
    if n.shape[1] <= len(n):
        raise ValueError(f"noise has {n.shape[1]} samples of {len(n)} coils; more are needed")
    return np.asarray(n @ n.conj().T / n.shape[1])


def whitening(covariance: Any, n_coils: int) -> np.ndarray:
    """Return W with W C Wᴴ = c · I, c the mean noise power: coils that err independently.

    Examples
    --------
    >>> whitening(np.diag([1.0, 4.0]), 2) ** 2
    array([[2.5  , 0.   ],
           [0.   , 0.625]])
    """
    c = np.asarray(covariance)
    if c.shape != (n_coils, n_coils):
        raise ValueError(
            f"coil_covariance has shape {c.shape}; expected {(n_coils, n_coils)}, the coils"
        )
    if not np.allclose(c, c.conj().T, atol=NOTHING * float(np.abs(c).max())):
        raise ValueError("coil_covariance must be Hermitian: E[n nᴴ]")
    try:
        lower = np.linalg.cholesky(c)
    except np.linalg.LinAlgError:
        raise ValueError("coil_covariance must be positive definite") from None
    level = float(np.trace(c).real) / n_coils
    return np.asarray(np.linalg.inv(lower) * level**0.5)


def whiten_coils(
    kspace: Any, covariance: Any, sensitivities: Any = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Combine coils such that their noise is independent and equal.

    ``reconstruct(coil_covariance=…)`` does this itself; before :func:`compress_coils` it has
    to be done first, or the loudest coil is taken for the best.

    Parameters
    ----------
    kspace : array (L, coils, …)
    covariance : array (coils, coils)
        As :func:`noise_covariance` gives it.
    sensitivities : array (coils, …), (L, coils, …) or (L, sets, coils, …), optional

    Returns
    -------
    kspace, sensitivities

    Examples
    --------
    >>> y, _ = whiten_coils(np.ones((1, 2, 1, 1)), np.diag([1.0, 4.0]))
    >>> (y**2).ravel()
    array([2.5  , 0.625])
    """
    y = np.asarray(kspace)
    matrix = whitening(covariance, y.shape[1])
    return _both_mixed(y, sensitivities, matrix)


def own_noise(kspace: np.ndarray, mask: np.ndarray, radius: np.ndarray) -> np.ndarray | None:
    """Return a diagonal covariance where one coil is far noisier than the others, else None.

    From the samples farthest from the centre of k-space (L, C, *shape).
    """
    triples = zip(kspace, mask, radius, strict=True)
    power = np.mean([farthest_power(*triple) for triple in triples], axis=0)
    if not power.min() > 0 or power.max() < LOUD**2 * np.median(power):
        return None
    return np.diag(power)


def mixed(coils: np.ndarray, matrix: np.ndarray, n_axes: int) -> np.ndarray:
    """Multiply coils (…, C, *shape) with ``n_axes`` image axes by a matrix."""
    axis = -1 - n_axes
    return np.moveaxis(np.tensordot(matrix, coils, axes=(1, axis)), 0, axis)


def compress_coils(
    kspace: Any, number: int, sensitivities: Any = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Replace coils by the few combinations of them that carry most of the signal.

    Parameters
    ----------
    kspace : array (L, coils, …)
    number : int
        How many to keep.
    sensitivities : array (coils, …), (L, coils, …) or (L, sets, coils, …), optional
        Combined in the same way.

    Returns
    -------
    kspace, sensitivities
        With ``number`` coils. The combinations are orthonormal: white noise stays white.

    Examples
    --------
    >>> y = np.ones((1, 8, 4, 4)) * np.arange(8)[:, None, None]
    >>> few, _ = compress_coils(y, 1)
    >>> few.shape, bool(np.isclose(np.sum(few**2), np.sum(y**2)))
    ((1, 1, 4, 4), True)
    """
    y = np.asarray(kspace)
    if y.ndim < 4:
        raise ValueError(f"kspace has shape {y.shape}; expected (L, coils, H, W)")
    if not 1 <= number <= y.shape[1]:
        raise ValueError(f"number must be from 1 to {y.shape[1]}, the coils, got {number}")
    chosen = _combinations(y)[1][:number]
    return _both_mixed(y, sensitivities, chosen)


def _both_mixed(
    y: np.ndarray, sensitivities: Any, matrix: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    n_axes = y.ndim - 2
    if sensitivities is None:
        return mixed(y, matrix, n_axes), None
    return mixed(y, matrix, n_axes), mixed(np.asarray(sensitivities), matrix, n_axes)


def coils_enough(kspace: np.ndarray) -> int:
    """Return how many combinations of coils (L, C, …) carry a signal above the noise.

    All of them where they are not many. Of many coils, the weakest combination is noise. To
    leave out combinations is no approximation: it is to measure less, where only noise was
    measured; aliasing is told apart by weak combinations too, so all others are kept.

    Examples
    --------
    >>> y = np.random.default_rng(0).standard_normal((1, 2, 9)) + 0j
    >>> coils_enough(np.repeat(y, 8, axis=1)), coils_enough(y)
    (2, 2)
    """
    n_coils = int(kspace.shape[1])
    if n_coils <= PLENTY:
        return n_coils
    powers, _ = _combinations(kspace)
    least = max(ABOVE_NOISE * powers[-1], NOTHING * powers[0])
    return int(np.sum(powers > least))


def _combinations(kspace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return powers of orthonormal combinations of coils (L, C, …), falling, and their rows."""
    flat = np.moveaxis(kspace, 1, 0).reshape(kspace.shape[1], -1)
    powers, vectors = np.linalg.eigh(flat @ flat.conj().T)
    return powers[::-1], np.asarray(vectors[:, ::-1].conj().T)
