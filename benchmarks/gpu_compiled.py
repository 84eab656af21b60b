"""The fused CG step against a generic one: passes by ``torch.compile``, one CUDA graph.

A kernel written by hand has to earn its place: where what a compiler makes of the plain updates
is as fast to within a fifth, the plain updates should be enough.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from gpu_operators import OPERATORS, POWERS, Q, TooLargeError
from gpu_steps import fused_steps, graphed, milliseconds
from gpu_tables import DEVICE, ON_CUDA, empty_cache, pick, synchronize, table

ALLOWED = 1.2
# The product itself compiled too, where it is made of torch's operations: seconds each.
WHOLE = ("DCT", "Fourier 2-D", "Convolution", "Wavelet 2-D")
WHOLE_POWERS = (15, 20)

COMPILER = "inductor" if ON_CUDA else "eager"
# One function is compiled for every shape and layout. Above its limit the compiler would leave
# it as it is, without a word.
LAYOUTS = 256

_passes: dict[tuple[int, ...], tuple[Any, float]] = {}


def against_compiled(scale: str) -> str:
    """Return the table: each operator at each size, the step by hand and by the compiler."""
    torch._dynamo.config.recompile_limit = LAYOUTS
    rows = []
    for name, make in OPERATORS.items():
        for power in pick(scale, POWERS, (12, 15), (8,)):
            try:
                operator, dtype = make(1 << power)
            except TooLargeError:
                continue
            rhs = torch.randn(Q, 1 << power, device=DEVICE, dtype=dtype)
            step = fused_steps(operator, rhs)[1]
            generic, took = _generic(operator, rhs, whole=False)
            cells = [name, f"2^{power}", f"{step:.4f}", f"{generic:.4f}", f"{generic / step:.2f}",
                     "yes" if generic <= ALLOWED * step else "no", f"{took:.1f}"]  # fmt: skip
            if name in WHOLE and power in WHOLE_POWERS and scale == "full":
                whole, took = _generic(operator, rhs, whole=True)
                cells += [f"{whole:.4f}", f"{whole / step:.2f}", f"{took:.1f}"]
            else:
                cells += ["—"] * 3
            rows.append(cells)
            print(rows[-1], flush=True)
        empty_cache()
    columns = ("operator", "D", "by hand (ms)", "generic (ms)", "ratio", f"within {ALLOWED}",
               "compiling (s)", "product compiled too (ms)", "ratio", "compiling (s)")  # fmt: skip
    return (
        f"## The step by hand and by a compiler, {Q} systems, single precision\n\n"
        "By hand: what a fit takes. Generic: the operator's own product, and the plain updates "
        "compiled by `torch.compile` for that shape, as one CUDA graph; complex rows are real ones "
        "twice as long. It checks nothing and stops nowhere. Compiling: the first call for a shape "
        "(shared by operators).\n\n" + table(columns, rows)
    )


def _generic(operator: Any, rhs: Any, whole: bool) -> tuple[float, float]:
    """Return the milliseconds of a step as a graph, and the seconds of compiling it."""
    lanes = 2 if rhs.is_complex() else 1
    number, n = rhs.shape[0], rhs.shape[1] * lanes
    diagonal = torch.rand(rhs.shape[1], device=DEVICE).repeat_interleave(lanes) + 0.1
    inverse = 1 / (diagonal + 0.3)
    r = torch.view_as_real(rhs).reshape(number, n) if lanes == 2 else rhs
    state = [torch.zeros_like(r), r.clone(), inverse * r]
    rho = torch.sum(inverse * r * r, dim=1)

    def product(p: Any) -> Any:
        if lanes == 1:
            return operator.gram(p)
        rows = torch.view_as_complex(p.reshape(number, n // 2, 2))
        return torch.view_as_real(operator.gram(rows)).reshape(number, n)

    def complete(x: Any, r: Any, p: Any, rho: Any, diagonal: Any, inverse: Any) -> Any:
        return _updates(x, r, p, product(p), rho, diagonal, inverse)

    began, key = time.perf_counter(), (number, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler talks about complex numbers and caches
        if whole:
            step = torch.compile(complete, dynamic=False, backend=COMPILER)
            step(*state, rho, diagonal, inverse)
            synchronize()
            took = time.perf_counter() - began
            work: Callable[[], Any] = lambda: step(*state, rho, diagonal, inverse)  # noqa: E731
        else:
            if key not in _passes:
                updates = torch.compile(_updates, dynamic=False, backend=COMPILER)
                updates(*state, product(state[2]), rho, diagonal, inverse)
                synchronize()
                _passes[key] = updates, time.perf_counter() - began
            updates, took = _passes[key]
            work = lambda: updates(*state, product(state[2]), rho, diagonal, inverse)  # noqa: E731
        try:
            return milliseconds(graphed(work)), took
        except Exception as error:
            synchronize()
            print(f"not a graph: {type(error).__name__}: {str(error)[:100]}", flush=True)
            return milliseconds(work), took


def _updates(x: Any, r: Any, p: Any, g: Any, rho: Any, diagonal: Any, inverse: Any) -> Any:
    """Return the arrays after a step of conjugate gradients, (Q, n) real."""
    g = g + diagonal * p
    curvature = torch.sum(p * g, dim=1)
    length = torch.where(curvature > 0, rho / curvature, 0.0)[:, None]
    x, r = x + length * p, r - length * g
    after = torch.sum(inverse * r * r, dim=1)
    ratio = torch.where(rho > 0, after / rho, 0.0)[:, None]
    return x, r, inverse * r + ratio * p, after
