"""Causal convolution with a known kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import array_api_extra as xpx
import numpy as np
import scipy.fft
import scipy.linalg

from cofem import backend
from cofem.arguments import count, host_vector
from cofem.backend import Array, Cache
from cofem.operators._matmul import times
from cofem.operators.base import LinearOperator

# Tails up to this length are corrected by a small matrix, longer ones by short FFTs.
DENSE_TAIL_UP_TO = 256
# Taps whose sum is below this share of the rounding error are left out.
BELOW_ROUNDING = 0.1


@final
class Convolution(LinearOperator):
    """Causal convolution, truncated to the length of the signal.

    ``(Φz)_i = Σ_{j≤i} kernel[i−j] z_j``. A product costs two FFTs of a little more
    than n + m samples, where m is the length of the kernel without a tail that is
    below rounding; so does ``gram`` when m ≤ n/4.

    Parameters
    ----------
    kernel : array of shape (m,), 1 ≤ m ≤ n, real or complex
    n : int
        Length of the signal; N = D = n.

    Examples
    --------
    >>> import numpy as np
    >>> phi = Convolution([1.0, 0.5], n=4)
    >>> phi.forward(np.array([1.0, 0.0, 0.0, 2.0])).round(6)
    array([1. , 0.5, 0. , 2. ])
    """

    exact_row_norms = True
    exact_weighted_norms = True

    def __init__(self, kernel: Any, n: int) -> None:
        n = count(n, "n")
        self.kernel = host_vector(kernel, "kernel")
        if self.kernel.size > n:
            raise ValueError(f"kernel has {self.kernel.size} coefficients, more than n = {n}")
        self.shape = (n, n)
        self.is_complex = bool(np.iscomplexobj(self.kernel))
        self._plans = Cache()

    def _forward(self, x: Array) -> Array:
        plan = self._plan(x)
        return plan.filter(x, plan.spectrum)[..., : self.shape[0]]

    def _adjoint(self, y: Array) -> Array:
        plan = self._plan(y)
        return plan.filter(y, plan.conjugate)[..., : self.shape[1]]

    def _gram(self, x: Array) -> Array:
        plan, n = self._plan(x), self.shape[1]
        if 4 * plan.length > n:
            return self._adjoint(self._forward(x))
        # ΦᴴΦ is that of the untruncated convolution, one multiplication with |spectrum|², minus the
        # part of the m − 1 outputs beyond the end.
        out = plan.filter(x, plan.power)[..., :n]
        start = n - plan.length + 1
        if start == n:
            return out
        beyond = self._tail_gram(x[..., start:], plan)
        return xpx.at(out)[..., start:].subtract(beyond)

    def _tail_gram(self, end: Array, plan: _Plan) -> Array:
        """Apply TᴴT, where T takes the last m − 1 inputs to the m − 1 outputs beyond the end."""
        if plan.tail is not None:
            return times(end, plan.tail)
        assert plan.tail_plan is not None
        p, short = plan.length - 1, plan.tail_plan
        beyond = short.filter(end, short.spectrum)[..., p : 2 * p]
        # Back: as if these outputs stood p places later than the filter's input starts.
        xp = backend.namespace(end)
        beyond = xp.concat([xp.zeros_like(beyond), beyond], axis=-1)
        return short.filter(beyond, short.conjugate)[..., :p]

    def _plan(self, x: Array) -> _Plan:
        complex_path = self.is_complex or backend.is_complex(x)
        plan: _Plan = self._plans.get(x, lambda: self._make_plan(x, complex_path), complex_path)
        return plan

    def _make_plan(self, x: Array, complex_path: bool) -> _Plan:
        xp, n = backend.namespace(x), self.shape[1]
        m = effective_length(self.kernel, float(xp.finfo(x.dtype).eps))
        kernel = self.kernel[:m]
        short = 4 * m <= n and m - 1 > DENSE_TAIL_UP_TO
        tail = None
        if 4 * m <= n and 1 <= m - 1 <= DENSE_TAIL_UP_TO:
            # T[a, b] = kernel[m − 1 + a − b] for b ≥ a; kept as (TᴴT)ᵀ for rows.
            first = np.zeros(m - 1, kernel.dtype)
            first[0] = kernel[-1]
            T = scipy.linalg.toeplitz(first, kernel[:0:-1])
            tail = _move(T.T @ np.conj(T), x)
        return _Plan.make(
            kernel,
            n,
            x,
            complex_path,
            tail,
            _Plan.make(kernel, m - 1, x, complex_path) if short else None,
        )

    def _column_norms_squared(self, like: Array) -> Array:
        return backend.from_numpy(self._sums_of_squares()[::-1].copy(), like)

    def _weighted_column_norms_squared(self, weights: Array) -> Array:
        # Column j holds the kernel from row j on, so its squares meet the weights there.
        squares = Convolution(backend.abs_squared(self.kernel), self.shape[1])
        # Rounding in the transforms can make a sum of squares negative.
        return backend.namespace(weights).clip(squares._adjoint(weights), min=0.0)

    def _row_norms_squared(self, like: Array) -> Array:
        return backend.from_numpy(self._sums_of_squares(), like)

    def _sums_of_squares(self) -> np.ndarray:
        # Row i holds the first i + 1 coefficients, column n − 1 − i too.
        sums = np.cumsum(backend.abs_squared(self.kernel).astype(np.float64))
        return np.pad(sums, (0, self.shape[0] - sums.size), mode="edge")


def effective_length(kernel: np.ndarray, eps: float) -> int:
    """Return how many coefficients matter: the rest sums to less than eps/10 of the largest.

    The sum of the dropped moduli bounds the change of the operator's norm, and the
    largest modulus is at most that norm, so what is dropped lies below rounding.

    Examples
    --------
    >>> effective_length(0.5 ** np.arange(1000.0), 2.0**-52)
    57
    """
    moduli = np.abs(kernel)
    rest = np.cumsum(moduli[::-1])[::-1]
    return max(1, int(np.count_nonzero(rest > BELOW_ROUNDING * eps * moduli.max())))


@dataclass(frozen=True)
class _Plan:
    """Spectra of one kernel for arrays of one library, device and precision."""

    length: int
    padded: int
    complex_path: bool
    spectrum: Array
    conjugate: Array
    power: Array
    tail: Array | None
    tail_plan: _Plan | None

    @classmethod
    def make(
        cls,
        kernel: np.ndarray,
        n: int,
        x: Array,
        complex_path: bool,
        tail: Array | None = None,
        tail_plan: _Plan | None = None,
    ) -> _Plan:
        # Real transforms are fastest for lengths with the factors 2, 3 and 5, on CPU and GPU.
        padded = scipy.fft.next_fast_len(n + kernel.size - 1, real=True)
        transform = np.fft.fft if complex_path else np.fft.rfft
        spectrum = transform(kernel.astype(np.result_type(kernel, np.float64)), n=padded)
        return cls(
            kernel.size,
            padded,
            complex_path,
            _move(spectrum, x),
            _move(spectrum.conj(), x),
            _move(backend.abs_squared(spectrum), x),
            tail,
            tail_plan,
        )

    def filter(self, x: Array, spectrum: Array) -> Array:
        """Multiply with ``spectrum`` in the Fourier domain, without wrapping round."""
        xp, fft = backend.namespace(x), backend.fft_module(x)
        if not self.complex_path:
            transformed = fft.rfft(x, n=self.padded)
            transformed *= spectrum
            return fft.irfft(transformed, n=self.padded)
        x = xp.astype(x, backend.complex_dtype(x.dtype, xp), copy=False)
        transformed = fft.fft(x, n=self.padded)
        transformed *= spectrum
        options = {"overwrite_x": True} if backend.is_numpy(x) else {}
        return fft.ifft(transformed, n=self.padded, **options)


def _move(value: np.ndarray, x: Array) -> Array:
    return backend.Constant(value).like(x)
