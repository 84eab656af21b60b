"""The only module that knows array libraries apart.

Everything else asks for a namespace (the array API standard) and for the few
things that the standard does not carry: random signs, the DCT, constants that
follow an array to its device, and how much parallel work a library wants.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.fft
import threadpoolctl

Array = Any
"""An array of any library that follows the array API standard."""


def is_array(x: object) -> bool:
    """Whether ``x`` is an array of a library we can work with."""
    return bool(compat.is_array_api_obj(x))


def is_numpy(x: object) -> bool:
    """Whether ``x`` is a NumPy array: the case with in-place, threaded kernels."""
    return isinstance(x, np.ndarray)


def library(x: Array) -> str:
    """Name the array library that ``x`` belongs to, for messages."""
    return type(x).__module__.split(".")[0]


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace of ``arrays``; refuse a mixture by name.

    Examples
    --------
    >>> import numpy as np
    >>> namespace(np.zeros(2)).__name__
    'array_api_compat.numpy'
    """
    try:
        return compat.array_namespace(*arrays)
    except TypeError:
        kinds = sorted({library(a) for a in arrays if a is not None})
        raise TypeError(
            f"arrays of different libraries cannot be combined: got {' and '.join(kinds)}; "
            "convert them to one library first"
        ) from None


def device_of(x: Array) -> Any:
    """Return the device that ``x`` lives on."""
    return compat.device(x)


def require_same_home(arrays: Iterable[tuple[str, Array]]) -> None:
    """Refuse arrays of two libraries or two devices, naming the arguments."""
    first: tuple[str, Array] | None = None
    for name, x in arrays:
        if first is None:
            first = (name, x)
            continue
        if library(first[1]) != library(x):
            raise TypeError(
                f"{first[0]} is a {library(first[1])} array and {name} a {library(x)} array; "
                "convert them to one library first"
            )
        if device_of(first[1]) != device_of(x):
            raise ValueError(
                f"{first[0]} is on device {device_of(first[1])} and {name} on "
                f"{device_of(x)}; move them to one device first"
            )


def to_numpy(x: Array) -> np.ndarray:
    """Copy ``x`` to a NumPy array on the host (no copy if it is one already)."""
    if isinstance(x, np.ndarray):
        return x
    if compat.is_torch_array(x):
        return x.detach().cpu().resolve_conj().numpy()  # type: ignore[no-any-return]
    if compat.is_cupy_array(x):
        return x.get()  # type: ignore[no-any-return]
    return np.asarray(x)  # JAX copies to the host, array_api_strict hands out its buffer


def from_numpy(x: np.ndarray, like: Array) -> Array:
    """Move a NumPy array to the library and device of ``like``, dtype kept."""
    if is_numpy(like):
        return x
    xp = namespace(like)
    if not x.flags.writeable:
        x = x.copy()  # torch warns about read-only memory
    return xp.asarray(x, device=device_of(like))


def real_dtype(dtype: Any, xp: Any) -> Any:
    """Return the real floating dtype with the precision of ``dtype``."""
    if dtype in (xp.float32, xp.complex64):
        return xp.float32
    return xp.float64


def complex_dtype(dtype: Any, xp: Any) -> Any:
    """Return the complex dtype with the precision of ``dtype``."""
    if dtype in (xp.float32, xp.complex64):
        return xp.complex64
    return xp.complex128


def is_complex(x: Array) -> bool:
    """Whether ``x`` holds complex numbers."""
    return bool(namespace(x).isdtype(x.dtype, "complex floating"))


def conj(x: Array) -> Array:
    """Complex conjugate that leaves real arrays alone."""
    return namespace(x).conj(x) if is_complex(x) else x


def real(x: Array) -> Array:
    """Real part that leaves real arrays alone."""
    return namespace(x).real(x) if is_complex(x) else x


def abs_squared(x: Array) -> Array:
    """Return |x|² as a real array."""
    if not is_complex(x):
        return x * x
    xp = namespace(x)
    re, im = xp.real(x), xp.imag(x)
    return re * re + im * im


class Cache:
    """Things made once for every library, device and precision they are asked in.

    Examples
    --------
    >>> import numpy as np
    >>> cache = Cache()
    >>> first = cache.get(np.zeros(2), lambda: object())
    >>> cache.get(np.ones(5), lambda: object()) is first
    True
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}

    def get(self, x: Array, make: Callable[[], Any], *extra: Hashable) -> Any:
        """Return what ``make`` made for arrays like ``x`` (and for the same ``extra``)."""
        precision = real_dtype(x.dtype, namespace(x))
        key = (library(x), str(device_of(x)), str(precision), *extra)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = make()
        return made

    # What is remembered is cheap to make again and need not travel.
    def __reduce__(self) -> tuple[Any, ...]:
        return (Cache, ())


class Constant:
    """A fixed array that follows its argument to any library, device and precision.

    Operators hold their masks, kernels and matrices in one of these. The
    conversions are remembered, since the same few are asked for at every step.
    """

    def __init__(self, value: Array) -> None:
        self.value = value
        self._copies = Cache()

    def like(self, x: Array) -> Array:
        """Return the constant in the library, device and precision of ``x``."""
        return self._copies.get(x, lambda: self._convert(x))

    def _convert(self, x: Array) -> Array:
        value = self.value
        xp = namespace(x)
        if library(value) != library(x):
            if not is_numpy(value):
                raise TypeError(
                    f"an operator that holds a {library(value)} array was applied to a "
                    f"{library(x)} array; convert one of them"
                )
            value = from_numpy(value, x)
        elif device_of(value) != device_of(x):
            raise ValueError(
                f"an operator on device {device_of(value)} was applied to an array on "
                f"{device_of(x)}; move one of them"
            )
        if xp.isdtype(value.dtype, ("bool", "integral")):
            return value
        convert = complex_dtype if xp.isdtype(value.dtype, "complex floating") else real_dtype
        return xp.astype(value, convert(x.dtype, xp), copy=False)


class Random:
    """Random draws in any library, reproducible from one seed.

    ``Random(seed, *stream)``: different streams are independent, so that the
    draws of one iteration do not depend on how many were made before.
    """

    def __init__(self, seed: int, *stream: int) -> None:
        self._sequence = np.random.SeedSequence([seed, *stream])
        self._numpy = np.random.Generator(np.random.SFC64(self._sequence))
        self._torch: Any = None

    def signs(self, shape: tuple[int, ...], like: Array) -> Array:
        """Rademacher signs (unit-modulus numbers if ``like`` is complex)."""
        if is_complex(like):
            return self._phases(shape, like)
        if compat.is_torch_array(like):
            import torch

            bits = torch.randint(
                0, 2, shape, generator=self._torch_generator(like), device=like.device,
                dtype=torch.int8,
            )
            return bits.to(like.dtype) * 2 - 1
        size = int(np.prod(shape))
        bytes_ = self._numpy.integers(0, 256, -(-size // 8), dtype=np.uint8)
        xp = namespace(like)
        kind = np.float32 if like.dtype == xp.float32 else np.float64
        out: Any = np.unpackbits(bytes_, count=size).astype(kind)
        out *= 2
        out -= 1
        return from_numpy(out.reshape(shape), like)

    def _phases(self, shape: tuple[int, ...], like: Array) -> Array:
        # Uniform on the circle: E p = 0 and E p² = 0, so the estimate is unbiased
        # for Hermitian matrices and circular.
        xp = namespace(like)
        angle = self.uniform(shape, like) * (2 * np.pi)
        return xp.astype(xp.cos(angle) + 1j * xp.sin(angle), like.dtype)

    def uniform(self, shape: tuple[int, ...], like: Array) -> Array:
        """Uniform draws on [0, 1), real, in the precision of ``like``."""
        xp = namespace(like)
        dtype = real_dtype(like.dtype, xp)
        if compat.is_torch_array(like):
            import torch

            return torch.rand(
                shape, generator=self._torch_generator(like), device=like.device, dtype=dtype
            )
        kind = np.float32 if dtype == xp.float32 else np.float64
        return from_numpy(self._numpy.random(shape, dtype=kind), like)

    def normal(self, shape: tuple[int, ...], like: Array) -> Array:
        """Draw standard normals, circular with E|x|² = 1 if ``like`` is complex."""
        xp = namespace(like)
        if is_complex(like):
            half = self._real_normal((2, *shape), like)
            return xp.astype((half[0, ...] + 1j * half[1, ...]) * 0.5**0.5, like.dtype)
        return self._real_normal(shape, like)

    def _real_normal(self, shape: tuple[int, ...], like: Array) -> Array:
        xp = namespace(like)
        dtype = real_dtype(like.dtype, xp)
        if compat.is_torch_array(like):
            import torch

            return torch.randn(
                shape, generator=self._torch_generator(like), device=like.device, dtype=dtype
            )
        kind = np.float32 if dtype == xp.float32 else np.float64
        return from_numpy(self._numpy.standard_normal(shape, dtype=kind), like)

    def _torch_generator(self, like: Array) -> Any:
        if self._torch is None:
            import torch

            self._torch = torch.Generator(device=like.device)
            self._torch.manual_seed(int(self._sequence.generate_state(1, np.uint64)[0] >> 1))
        return self._torch


def fft_module(x: Array) -> Any:
    """Return the module with ``fft``, ``rfft``, … for arrays like ``x``."""
    # SciPy's transforms keep float32 and beat NumPy's.
    return scipy.fft if is_numpy(x) else namespace(x).fft


def dct(x: Array, overwrite: bool = False) -> Array:
    """Orthonormal DCT-II along the last axis; ``overwrite`` lets it use x as scratch."""
    if is_numpy(x):
        return scipy.fft.dct(x, norm="ortho", overwrite_x=overwrite)
    return _dct_by_fft(x)


def idct(x: Array, overwrite: bool = False) -> Array:
    """Orthonormal inverse DCT (DCT-III) along the last axis, inverse of :func:`dct`."""
    if is_numpy(x):
        return scipy.fft.idct(x, norm="ortho", overwrite_x=overwrite)
    return _idct_by_fft(x)


_twiddles: dict[tuple[Any, ...], Array] = {}


def _dct_twiddle(n: int, x: Array) -> Array:
    """exp(−iπk/2n) √(2/n) for k ≤ n/2, for the DCT by one real FFT (Makhoul 1980)."""
    xp = namespace(x)
    dtype = complex_dtype(x.dtype, xp)
    key = (n, library(x), str(device_of(x)), str(dtype))
    twiddle = _twiddles.get(key)
    if twiddle is None:
        # Made once: on a GPU the transfer would cost more than the transform.
        factor = np.exp(-0.5j * np.pi * np.arange(n // 2 + 1) / n) * np.sqrt(2.0 / n)
        factor[0] *= np.sqrt(0.5)
        twiddle = xp.astype(from_numpy(factor, x), dtype)
        while len(_twiddles) >= 4:  # large n make large tables; few lengths are in use at once
            _twiddles.pop(next(iter(_twiddles)), None)
        _twiddles[key] = twiddle
    return twiddle


def _dct_by_fft(x: Array) -> Array:
    xp = namespace(x)
    if is_complex(x):
        return _dct_by_fft(xp.real(x)) + 1j * _dct_by_fft(xp.imag(x))
    n = x.shape[-1]
    shuffled = xp.concat([x[..., ::2], xp.flip(x[..., 1::2], axis=-1)], axis=-1)
    # Entry k of the product is X[k] − i X[n−k]: half a spectrum holds all of X.
    spectrum = xp.fft.rfft(shuffled, axis=-1) * _dct_twiddle(n, x)
    upper = -xp.flip(xp.imag(spectrum)[..., 1 : (n + 1) // 2], axis=-1)
    return xp.concat([xp.real(spectrum), upper], axis=-1)


def _idct_by_fft(x: Array) -> Array:
    xp = namespace(x)
    if is_complex(x):
        return _idct_by_fft(xp.real(x)) + 1j * _idct_by_fft(xp.imag(x))
    n = x.shape[-1]
    half = (n + 1) // 2
    # Undo _dct_by_fft: rebuild X[k] − i X[n−k] for k ≤ n/2, with X[n] = 0.
    mirrored = xp.concat(
        [xp.zeros_like(x[..., :1]), xp.flip(x[..., half:], axis=-1)], axis=-1
    )[..., : n // 2 + 1]
    spectrum = (x[..., : n // 2 + 1] - 1j * mirrored) / _dct_twiddle(n, x)
    shuffled = xp.fft.irfft(spectrum, n=n, axis=-1)
    even, odd = shuffled[..., :half], xp.flip(shuffled[..., half:], axis=-1)
    if n % 2:  # odd has one element fewer: pad, interleave, cut
        odd = xp.concat([odd, xp.zeros_like(even[..., :1])], axis=-1)
    woven = xp.stack([even, odd], axis=-1)
    return xp.reshape(woven, (*woven.shape[:-2], 2 * half))[..., :n]


def n_threads() -> int:
    """How many threads to use on a CPU: ``COFEM_NUM_THREADS``, or the cores we may run on."""
    asked = os.environ.get("COFEM_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def steps_between_looks(x: Array) -> int:
    """How many solver steps to queue before asking the device whether it is done."""
    return 1 if str(device_of(x)).startswith("cpu") or is_numpy(x) else 8


def group_means(x: Array, labels: np.ndarray, sizes: np.ndarray) -> Array:
    """Replace every entry of ``x`` by the mean over the entries with its label."""
    if compat.is_torch_array(x):
        import torch

        index = torch.as_tensor(labels, device=x.device)
        sums = torch.zeros(len(sizes), dtype=x.dtype, device=x.device).index_add_(0, index, x)
        return (sums / torch.as_tensor(sizes, dtype=x.dtype, device=x.device))[index]
    values = to_numpy(x)
    means = np.bincount(labels, weights=values) / sizes
    return from_numpy(means[labels].astype(values.dtype), x)


def inverse_cholesky(matrix: Array) -> Array:
    """Return L⁻¹ for the Cholesky factor L of a Hermitian positive definite matrix."""
    if is_numpy(matrix):
        from scipy.linalg import cholesky, lapack

        try:
            factor = cholesky(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"the posterior's precision is not positive definite in {matrix.dtype}: "
                "noise_precision is too large beside the prior's precision"
            ) from None
        (invert,) = lapack.get_lapack_funcs(("trtri",), (factor,))
        inverse, info = invert(factor, lower=1, overwrite_c=1)
        if info:
            raise np.linalg.LinAlgError("a triangular factor is singular")
        return inverse
    xp = namespace(matrix)
    factor = xp.linalg.cholesky(matrix)
    eye = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device_of(matrix))
    if compat.is_torch_array(matrix):
        return xp.linalg.solve_triangular(factor, eye, upper=False)
    return xp.linalg.solve(factor, eye)


def erfcx(x: Array) -> Array:
    """Scaled complementary error function exp(x²) erfc(x)."""
    import scipy.special

    if is_numpy(x):
        return scipy.special.erfcx(x)
    if compat.is_torch_array(x):
        import torch

        return torch.special.erfcx(x)
    return from_numpy(scipy.special.erfcx(to_numpy(x)), x)


def few_blas_threads(entries: int) -> contextlib.AbstractContextManager[Any]:
    """Keep BLAS to one thread while matrices of that many entries are worked on.

    Threads that share a small product spend more time waiting for each other than
    they save, and many times more when another program wants the same cores.
    """
    if entries > 1 << 19:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any]
    limited = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    return limited
