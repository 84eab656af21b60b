"""Forward models of deepinv, recognised by their methods."""

from __future__ import annotations

import math
from typing import Any, final

from cofem import backend
from cofem.arguments import image_shape
from cofem.backend import Array
from cofem.operators._user_code import accepted, asked, by_parts
from cofem.operators.base import LinearOperator
from cofem.operators.norms import estimate_column_norms_squared, norms_are_exact


def is_physics(x: object) -> bool:
    """Whether ``x`` has what deepinv's linear physics have: A and A_adjoint.

    Examples
    --------
    >>> is_physics("A")
    False
    """
    both = all(callable(getattr(x, name, None)) for name in ("A", "A_adjoint"))
    return both and not isinstance(x, type)


def from_physics(physics: Any, img_size: Any = None, *, name: str = "phi") -> LinearOperator:
    """Make an operator of a linear physics of deepinv.

    Parameters
    ----------
    physics : deepinv.physics.LinearPhysics
        Or any object with ``A``, from a batch of images (B, C, H, W) to measurements
        (B, …), and ``A_adjoint``. Its noise model is not used.
    img_size : tuple of int, optional
        (C, H, W), the images without the batch; D is its product. By default
        ``physics.img_size``.
    name : str
        What the errors call it.

    Returns
    -------
    LinearOperator of shape (N, D)
        It works on torch tensors, flattened in C order, on the device of the physics. A
        physics that holds filters in single precision computes in single precision.

    Examples
    --------
    >>> import torch
    >>> class Crop:  # what a deepinv physics can do
    ...     def A(self, x): return x[..., 1:]
    ...     def A_adjoint(self, y): return torch.nn.functional.pad(y, (1, 0))
    >>> phi = from_physics(Crop(), img_size=(1, 2, 3))
    >>> phi.shape, phi.forward(torch.arange(6.0)).tolist()
    ((4, 6), [1.0, 2.0, 4.0, 5.0])
    """
    if not is_physics(physics):
        raise TypeError(f"{name} must have A and A_adjoint, got {type(physics).__name__}")
    size = getattr(physics, "img_size", None) if img_size is None else img_size
    if size is None:
        raise ValueError(
            f"{name} is a deepinv physics that does not say how large its images are; use "
            "cofem.operators.from_physics(physics, img_size=(C, H, W))"
        )
    return PhysicsOperator(physics, image_shape(tuple(size)), name)


@final
class PhysicsOperator(LinearOperator):
    """A deepinv physics as an operator; see :func:`from_physics`.

    Examples
    --------
    >>> class Doubling:
    ...     def A(self, x): return 2 * x
    ...     A_adjoint = A
    >>> PhysicsOperator(Doubling(), (1, 2, 2), "phi").shape
    (4, 4)
    """

    trusted = False
    splits_rows = False  # user code may not be thread-safe

    def __init__(self, physics: Any, img_size: tuple[int, ...], name: str) -> None:
        self.physics, self.img_size, self.name = physics, img_size, name
        self._precision, device = _home(physics)
        measured = asked(physics.A, _zeros((1, *img_size), self._precision, device), name=name)
        if not backend.is_array(measured):
            raise TypeError(
                f"{name}: A returned {type(measured).__name__}, expected one tensor (stacked "
                "physics are to be given as a list of tasks or combined by operators.stack)"
            )
        self._measured_shape = tuple(measured.shape[1:])
        self.shape = (math.prod(self._measured_shape), math.prod(img_size))
        self.is_complex = backend.is_complex(measured)
        self.single_precision = "32" in str(self._precision)
        self.exact_column_norms = norms_are_exact(self.shape)

    def _forward(self, x: Array) -> Array:
        def product(part: Array) -> Array:
            return self._call(part, self.physics.A, self.img_size, self.shape[0], "A")

        return by_parts(product, x, self.is_complex)

    def _adjoint(self, y: Array) -> Array:
        def product(part: Array) -> Array:
            call = self.physics.A_adjoint
            return self._call(part, call, self._measured_shape, self.shape[1], "A_adjoint")

        return by_parts(product, y, self.is_complex)

    def _call(
        self, x: Array, product: Any, shape: tuple[int, ...], length: int, call: str
    ) -> Array:
        if backend.library(x) != "torch":
            raise TypeError(
                f"{self.name} is a deepinv physics, which works on torch tensors; got an array of "
                f"{backend.library(x)}: pass y as a tensor"
            )
        xp = backend.namespace(x)
        rows = math.prod(x.shape[:-1])
        if not rows:
            return xp.zeros((*x.shape[:-1], length), dtype=x.dtype, device=x.device)
        given = xp.reshape(x, (rows, *shape))
        if self._precision is not None:
            convert = backend.complex_dtype if backend.is_complex(x) else backend.real_dtype
            given = xp.astype(given, convert(self._precision, xp), copy=False)
        try:
            out = asked(product, given, name=self.name).detach()
        except RuntimeError as error:  # torch's own, on devices mostly
            raise ValueError(
                f"{self.name}: {call} failed on a tensor of {given.dtype} on {x.device}: {error}"
            ) from error
        out = xp.reshape(out, (*x.shape[:-1], -1))
        return accepted(out, x, length, f"{self.name}: {call}", self.is_complex)

    def _column_norms_squared(self, like: Array) -> Array:
        return estimate_column_norms_squared(self, like)


def _home(physics: Any) -> tuple[Any, Any]:
    """Return the real dtype and the device of what a physics holds; None where it holds nothing."""
    held: list[Any] = []
    for kind in ("parameters", "buffers"):
        held += list(getattr(physics, kind, tuple)())
    numbers = [tensor for tensor in held if tensor.is_floating_point() or tensor.is_complex()]
    return numbers[0].real.dtype if numbers else None, held[0].device if held else None


def _zeros(shape: tuple[int, ...], dtype: Any, device: Any) -> Array:
    import torch

    return torch.zeros(shape, dtype=dtype, device=device)
