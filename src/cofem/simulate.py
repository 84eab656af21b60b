"""The paper's simulated problems: y = Φz + noise with a sparse z that is known.

The dictionaries and the laws of the spikes are those of Lin, Song, Bilgic and Ba,
"Covariance-Free Sparse Bayesian Learning", IEEE Transactions on Signal Processing,
2022. The demonstration, the benchmarks and the tests all draw from here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.operators import DCT, Convolution, Dense, LinearOperator

__all__ = ["Problem", "convolution", "dct", "gaussian", "nrmse"]

# The paper's laws of the spikes: normal with variance 5, exponential with mean 1.5.
NORMAL_STD, EXPONENTIAL_MEAN = 5**0.5, 1.5
# 0.29 · 100 is 28.999… in floating point.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """Measurements, and the true z that they were made from.

    Attributes
    ----------
    name : str
        The dictionary.
    phi : LinearOperator
        Φ, of shape (N, D).
    y : np.ndarray
        The measurements, (N,).
    z : np.ndarray
        The sparse truth, (D,).
    noise_std : float
        The standard deviation σ of the noise.

    Examples
    --------
    >>> problem = dct(D=300, seed=0)
    >>> problem.phi
    DCT(shape=(100, 300))
    >>> problem.y.shape, int((problem.z != 0).sum())
    ((100,), 36)
    """

    name: str
    phi: LinearOperator
    y: np.ndarray
    z: np.ndarray
    noise_std: float

    @property
    def noise_precision(self) -> float:
        """β = 1/σ², what ``fit`` takes."""
        return 1.0 / self.noise_std**2


def gaussian(
    D: int,
    seed: int,
    sparsity: float = 0.06,
    undersampling: int = 4,
    noise_std: float = 0.01,
) -> Problem:
    """Draw a dense Φ with entries N(0, 1/N) and spikes uniform on (−2, 2).

    Parameters
    ----------
    D : int
        Number of unknowns; N = D // undersampling.
    seed : int
        The same seed gives the same problem.
    sparsity : float
        Fraction of unknowns that are not zero, rounded down to a whole number of them.
    undersampling : int
        Unknowns for each measurement.
    noise_std : float
        Standard deviation of the noise.

    Examples
    --------
    >>> problem = gaussian(D=200, seed=1)
    >>> problem.phi, round(problem.noise_precision)
    (Dense(shape=(50, 200)), 10000)
    """
    random = np.random.default_rng(seed)
    N = _measurements(D, undersampling)
    phi = Dense(random.normal(scale=N**-0.5, size=(N, D)))
    z = _spikes(D, sparsity, random, lambda d: random.uniform(-2.0, 2.0, size=d))
    return _observe("gaussian", phi, z, noise_std, random)


def dct(
    D: int,
    seed: int,
    sparsity: float = 0.12,
    undersampling: int = 3,
    noise_std: float = 0.01,
) -> Problem:
    """Draw random samples of a signal with sparse DCT coefficients, spikes N(0, 5).

    The parameters are those of :func:`gaussian`. Nothing of size N × D is made, so D
    may be in the millions.

    Examples
    --------
    >>> problem = dct(D=3000, seed=0)
    >>> problem.phi.shape, int((problem.z != 0).sum())
    ((1000, 3000), 360)
    """
    random = np.random.default_rng(seed)
    N = _measurements(D, undersampling)
    phi = DCT(D, rows=np.sort(random.choice(D, size=N, replace=False)))
    z = _spikes(D, sparsity, random, lambda d: random.normal(scale=NORMAL_STD, size=d))
    return _observe("dct", phi, z, noise_std, random)


def convolution(
    D: int,
    seed: int,
    sparsity: float = 0.2,
    decay: float = 0.04,
    noise_std: float = 0.01,
) -> Problem:
    """Draw spikes seen through a decaying exponential, as in calcium imaging.

    The kernel is (1 − decay)^t over the whole length, N = D, and the spikes are
    exponential with mean 1.5: never negative. The parameters not named here are those
    of :func:`gaussian`.

    Parameters
    ----------
    decay : float
        Share of the kernel that is lost in one step, between 0 and 1.

    Examples
    --------
    >>> problem = convolution(D=100, seed=0)
    >>> problem.phi
    Convolution(shape=(100, 100))
    >>> bool((problem.z >= 0).all())
    True
    """
    if not 0 < decay < 1:
        raise ValueError(f"decay must lie between 0 and 1, got {decay!r}")
    random = np.random.default_rng(seed)
    z = _spikes(D, sparsity, random, lambda d: random.exponential(scale=EXPONENTIAL_MEAN, size=d))
    with np.errstate(under="ignore"):
        kernel = (1.0 - decay) ** np.arange(D)
    return _observe("convolution", Convolution(kernel, D), z, noise_std, random)


def nrmse(estimate: Array, truth: Array) -> float:
    """Return the normalised root mean square error in percent, 100 ‖ẑ − z‖ / ‖z‖.

    Examples
    --------
    >>> nrmse(np.array([1.0, 0.1]), np.array([1.0, 0.0]))
    10.0
    """
    return 100.0 * relative_error(estimate, truth)


def relative_error(estimate: Array, truth: Array, name: str = "estimate") -> float:
    """Return ‖ẑ − z‖ / ‖z‖ of arrays of any library; ``name`` is for the error message.

    Examples
    --------
    >>> relative_error(np.array([3.0, 4.0]), np.array([3.0, 4.5])).__round__(3)
    0.092
    """
    guess, true = backend.to_numpy(estimate), backend.to_numpy(truth)
    if guess.shape != true.shape:
        raise ValueError(
            f"{name} has shape {guess.shape} and truth {true.shape}; they must be the same"
        )
    size = np.linalg.norm(true)
    if size == 0:
        raise ValueError("truth is zero everywhere: there is nothing to compare with")
    return float(np.linalg.norm(guess - true) / size)


def _measurements(D: int, undersampling: int) -> int:
    N = operator.index(D) // operator.index(undersampling)
    if N < 1:
        raise ValueError(f"D = {D} is too small for undersampling = {undersampling}")
    return N


def _spikes(
    D: int, sparsity: float, random: np.random.Generator, law: Callable[[int], np.ndarray]
) -> np.ndarray:
    if not 0 < sparsity <= 1:
        raise ValueError(f"sparsity must be above 0 and at most 1, got {sparsity!r}")
    d = int(sparsity * D + ROUNDING)
    if d < 1:
        raise ValueError(f"D = {D} is too small for sparsity = {sparsity}: no spike is left")
    z = np.zeros(D)
    z[random.choice(D, size=d, replace=False)] = law(d)
    return z


def _observe(
    name: str, phi: LinearOperator, z: np.ndarray, noise_std: float, random: np.random.Generator
) -> Problem:
    if not (noise_std > 0 and np.isfinite(noise_std)):
        raise ValueError(f"noise_std must be positive, got {noise_std!r}")
    y = phi.forward(z) + noise_std * random.standard_normal(phi.shape[0])
    return Problem(name, phi, y, z, float(noise_std))
