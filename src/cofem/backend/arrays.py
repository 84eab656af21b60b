"""Arrays of any library: whose they are, where they live, and how to move them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeGuard

import array_api_compat as compat
import numpy as np

from cofem.backend.array_types import Array as Array  # where the backend's files look for it
from cofem.backend.array_types import Namespace, SameArray

# Arrays of at most so many bytes go to a CUDA device without a wait.
SMALL = 1 << 16


def is_array(x: object) -> bool:
    """Whether ``x`` is an array of a library we can work with."""
    return bool(compat.is_array_api_obj(x))


def is_numpy(x: object) -> TypeGuard[np.ndarray]:
    """Whether ``x`` is a NumPy array: the case with in-place, threaded kernels."""
    return isinstance(x, np.ndarray)


def library(x: Array) -> str:
    """Name the array library that ``x`` belongs to, for messages."""
    return type(x).__module__.split(".")[0]


def namespace(*arrays: Array | None) -> Namespace:
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


class _Floats:
    """Functions of a namespace for Python's floats."""

    abs, exp, log, sqrt = staticmethod(abs), math.exp, math.log, math.sqrt
    maximum, minimum = staticmethod(max), staticmethod(min)

    @staticmethod
    def where(condition: bool, then: float, otherwise: float) -> float:
        return then if condition else otherwise

    @staticmethod
    def clip(x: float, min: float = -math.inf, max: float = math.inf) -> float:
        return min if x < min else max if x > max else x


def functions_of(number: Any) -> Any:
    """Return the namespace of an array of numbers, or functions of the same names for a float.

    A formula that is written with them serves one problem and an array of problems.

    Examples
    --------
    >>> functions_of(2.0).clip(2.0, max=1.5)
    1.5
    """
    return _Floats if isinstance(number, (int, float)) else namespace(number)


def column(number: Any, like: Array) -> Any:
    """Return numbers (P,) as a column (P, 1) in the precision of ``like``; a float as it is."""
    if isinstance(number, (int, float)):
        return number
    xp = namespace(like)
    return xp.astype(number, real_dtype(like.dtype, xp), copy=False)[:, None]


def as_number(x: Any) -> Any:
    """Return an array without axes as a float, and an array of numbers as it is."""
    return float(x) if x.ndim == 0 else x


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


def to_numpy(x: Any) -> np.ndarray:
    """Copy ``x`` to a NumPy array on the host (no copy if it is one already)."""
    if isinstance(x, np.ndarray):
        return x
    if compat.is_torch_array(x):
        return x.detach().cpu().resolve_conj().numpy()
    if compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)  # JAX copies to the host, array_api_strict hands out its buffer


def copy_into(out: np.ndarray, x: Array) -> None:
    """Write ``x`` into NumPy's ``out`` of its shape, in the precision of ``out``.

    Examples
    --------
    >>> out = np.zeros(2, np.float32)
    >>> copy_into(out, np.array([1.0, 2.0]))
    >>> out
    array([1., 2.], dtype=float32)
    """
    if not compat.is_torch_array(x):
        out[...] = to_numpy(x)
        return
    import torch

    there, given = torch.from_numpy(out), torch.as_tensor(x)
    there.copy_(given.to(there.dtype))  # narrowed before it travels


def from_numpy(x: np.ndarray, like: Array) -> Array:
    """Move a NumPy array to the library and device of ``like``, dtype kept."""
    if is_numpy(like):
        return x
    xp = namespace(like)
    if not x.flags.writeable:
        x = x.copy()  # torch warns about read-only memory
    if x.nbytes <= SMALL and _goes_by_itself(like):
        # From memory of its own kind the copy is queued, and nobody waits for it.
        import torch

        moved: Array = torch.as_tensor(x).pin_memory().to(device_of(like), non_blocking=True)
        return moved
    return xp.asarray(x, device=device_of(like))


def done_there(function: Callable[[Any], Any], x: np.ndarray, like: Array) -> np.ndarray:
    """Return ``function(x)`` as a NumPy array, computed where ``like`` is and by its library.

    Examples
    --------
    >>> done_there(lambda x: 2 * x, np.ones(2), np.zeros(0))
    array([2., 2.])
    """
    return to_numpy(function(from_numpy(np.ascontiguousarray(x), like)))


def _goes_by_itself(like: Array) -> bool:
    """Whether a copy to the device of ``like`` can be queued; a recording would keep its source."""
    if not (compat.is_torch_array(like) and like.device.type == "cuda"):
        return False
    import torch

    return not torch.cuda.is_current_stream_capturing()


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


def conj(x: SameArray) -> SameArray:
    """Complex conjugate that leaves real arrays alone."""
    xp: Any = namespace(x)
    return xp.conj(x) if is_complex(x) else x


def real(x: SameArray) -> SameArray:
    """Real part that leaves real arrays alone."""
    xp: Any = namespace(x)
    return xp.real(x) if is_complex(x) else x


def abs_squared(x: SameArray) -> SameArray:
    """Return |x|² as a real array."""
    if not is_complex(x):
        return x * x
    xp: Any = namespace(x)
    re, im = xp.real(x), xp.imag(x)
    return re * re + im * im


def squared_size(x: Array) -> float:
    """Return ‖x‖², added up in double precision."""
    xp = namespace(x)
    return float(xp.sum(xp.astype(abs_squared(x), xp.float64)))


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
