"""Loops compiled by numba, without Python's lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

try:
    import numba
except ImportError:  # a machine that only works on its GPU can do without
    numba = None

# Sums may be reordered, which vectorises them; NaN and Inf keep their meaning.
REORDERED: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_here() -> bool:
    """Whether numba is installed, and compiled loops can be run."""
    return numba is not None


@overload
def compiled(function: Function) -> Function: ...
@overload
def compiled(**options: Any) -> Callable[[Function], Function]: ...
def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function of NumPy arrays; the code is kept on disk where that is possible.

    ``options`` are numba's. Without numba the function raises when it is called.
    """
    if function is None:
        return lambda f: compiled(f, **options)
    if numba is None:
        return _missing(function)
    options = {"nogil": True, **options}
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code: compile in every process
        return numba.njit(**options)(function)
    _keep_if_possible(made)
    return made


def _keep_if_possible(made: Any) -> None:
    """Let a call go on whose compiled code cannot be kept: its disk is full, for example."""
    cache = getattr(made, "_cache", None)
    save = getattr(cache, "save_overload", None)
    if cache is None or save is None:  # another numba, which keeps its cache elsewhere
        return

    def save_if_possible(*arguments: Any) -> None:
        with contextlib.suppress(OSError):
            save(*arguments)

    cache.save_overload = save_if_possible


def _missing(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise ImportError(
            f"{function.__name__} is compiled by numba, which is not installed: pip install numba"
        )

    return call


@contextlib.contextmanager
def interrupts_as_themselves() -> Iterator[None]:
    """Raise KeyboardInterrupt where numba has turned a Ctrl-C into a SystemError."""
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__cause__ or cause.__context__
        raise
