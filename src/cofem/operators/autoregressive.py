"""Signals that decay after every event, such as calcium fluorescence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import scipy.signal

from cofem import backend
from cofem.arguments import count, host_vector
from cofem.backend import Array
from cofem.operators.base import LinearOperator
from cofem.operators.convolution import Convolution

# Poles may lie on the unit circle. The roots of a multiple pole are only known to a fraction of
# the digits: of a double one to half of them.
LARGEST_POLE = 1 + 1e-6


@final
class Autoregressive(LinearOperator):
    """An autoregressive signal driven by innovations z: c_t = Σ_k coefficients[k] c_{t−1−k} + z_t.

    Parameters
    ----------
    coefficients : sequence of float
        (0.95,) has the kernel 0.95^t. The poles must not lie outside the unit circle.
    n : int
        Length of the signal; N = D = n.

    Attributes
    ----------
    coefficients : tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> phi = Autoregressive((0.5,), n=4)
    >>> phi.forward(np.array([1.0, 0.0, 0.0, 1.0]))
    array([1.   , 0.5  , 0.25 , 1.125])
    >>> phi.whitening(phi.forward(np.array([1.0, 0.0, 0.0, 1.0])))
    array([1., 0., 0., 1.])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, coefficients: Sequence[float] | Array, n: int) -> None:
        n = count(n, "n")
        given = host_vector(coefficients, "coefficients")
        if np.iscomplexobj(given):
            raise TypeError("coefficients must be real")
        radius = max(np.abs(np.roots(np.append(1.0, -given))), default=0.0)
        if radius > LARGEST_POLE:
            raise ValueError(
                f"coefficients are unstable: a pole has modulus {radius:.6g}, more than 1, "
                "so the signal would grow without bound"
            )
        self.coefficients = tuple(float(c) for c in given)
        self.shape = (n, n)
        self._filter = np.append(1.0, -given)
        self._convolution: Convolution | None = None

    @classmethod
    def from_times(cls, tau_d: float, tau_r: float | None, rate: float, n: int) -> Autoregressive:
        """Build the operator from a decay time, a rise time and a sampling rate.

        Parameters
        ----------
        tau_d : float
            Decay time, in seconds.
        tau_r : float or None
            Rise time, in seconds; None or 0 means an immediate rise.
        rate : float
            Samples per second.
        n : int
            Length of the signal.

        Examples
        --------
        >>> phi = Autoregressive.from_times(tau_d=1.0, tau_r=None, rate=20.0, n=100)
        >>> round(phi.coefficients[0], 4)
        0.9512
        """
        for name, value in (("tau_d", tau_d), ("rate", rate)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value!r}")
        decay = math.exp(-1 / (tau_d * rate))
        if tau_r is None or tau_r == 0:
            return cls((decay,), n)
        if not (math.isfinite(tau_r) and tau_r > 0):
            raise ValueError(f"tau_r must be None, zero or positive, got {tau_r!r}")
        rise = math.exp(-1 / (tau_r * rate))
        return cls((decay + rise, -decay * rise), n)

    def kernel(self, length: int | None = None) -> np.ndarray:
        """Return the response to one event, shape (length,); as long as the signal by default.

        Examples
        --------
        >>> Autoregressive((0.5,), n=4).kernel(3)
        array([1.  , 0.5 , 0.25])
        """
        impulse = np.zeros(self.shape[0] if length is None else count(length, "length"))
        impulse[0] = 1.0
        return np.asarray(scipy.signal.lfilter([1.0], self._filter, impulse))

    def whitening(self, c: Array) -> Array:
        """Apply the inverse, which is banded: (…, n) to (…, n), the signal to its innovations.

        Examples
        --------
        >>> Autoregressive((0.5,), n=3).whitening(np.array([1.0, 0.5, 1.25]))
        array([1., 0., 1.])
        """
        c = self._checked(c, self.shape[0], "whitening")
        xp, n = backend.namespace(c), self.shape[0]
        z = xp.asarray(c, copy=True)
        for lag, coefficient in enumerate(self.coefficients[: n - 1], start=1):
            zeros = xp.zeros_like(c[..., :lag])
            z -= xp.concat([zeros, coefficient * c[..., : n - lag]], axis=-1)
        return z

    def _forward(self, x: Array) -> Array:
        return self._recursion(x) if backend.is_numpy(x) else self._by_fft()._forward(x)

    def _adjoint(self, y: Array) -> Array:
        if not backend.is_numpy(y):
            return self._by_fft()._adjoint(y)
        return np.ascontiguousarray(self._recursion(y[..., ::-1])[..., ::-1])

    def _gram(self, x: Array) -> Array:
        if not backend.is_numpy(x):
            return self._by_fft()._gram(x)
        return self._adjoint(self._forward(x))

    def _recursion(self, x: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(x):
            return self._recursion(x.real) + 1j * self._recursion(x.imag)
        # Always in double precision: near the unit circle, rounding the coefficients
        # to single would change the kernel by much more than rounding the signal.
        out: np.ndarray = scipy.signal.lfilter([1.0], self._filter, x, axis=-1)
        return out.astype(x.dtype, copy=False)

    def _by_fft(self) -> Convolution:
        # A recursion of n dependent steps is slow without lfilter; a convolution is not.
        if self._convolution is None:
            self._convolution = Convolution(self.kernel(), self.shape[0])
        return self._convolution

    def _column_norms_squared(self, like: Array) -> Array:
        return self._by_fft()._column_norms_squared(like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        return self._by_fft()._weighted_column_norms_squared(weights)

    def _row_norms_squared(self, like: Array) -> Array:
        return self._by_fft()._row_norms_squared(like)

    # The impulse response is long and quick to make again.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convolution": None}
