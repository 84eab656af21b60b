"""Systems put into their rows, and their residuals. On CUDA all of it is captured in graphs."""

from __future__ import annotations

from typing import Any

import torch

from cofem.solvers.steps.cuda.state import State, power_of_two


def begin(s: State, passes: Any, rhs: Any) -> Any:
    """R = B and X = 0; return rᴴM⁻¹r.

    Rows are scaled by powers of two, so that squares stay in range whatever the units.
    """
    s.put(s.r, rhs)
    norm = norms(s, passes, s.r, s.inverse)
    s.set(scale=power_of_two(norm), taken=torch.full_like(s.taken, -1))
    _unscale(s, s.r)
    s.x.zero_()
    _forget_directions(s)
    return norm / s.scale**2


def start(s: State, passes: Any, at: Any) -> None:
    """Leave the sums of R − A X, X at its start where there is a right-hand side."""
    if at is None:
        passes.norm(s, s.r, s.inverse, s.rho_sums)
        return
    s.put(s.x, at)
    s.x.masked_fill_(s.zero[:, None, :], 0.0)
    _unscale(s, s.x)
    _subtract_product(s, passes)


def recompute(s: State, passes: Any, rhs: Any) -> None:
    """R = B − A X."""
    s.put(s.r, rhs)
    _unscale(s, s.r)
    _subtract_product(s, passes)
    _forget_directions(s)


def joint_size(s: State, passes: Any, of: Any) -> Any:
    """Return Σ ‖r‖² over those systems, in their own units, for every lane the same."""
    sizes = norms(s, passes, s.r, torch.ones_like(s.inverse)) * s.scale**2
    sizes = torch.where(of, sizes, 0.0)
    if s.lanes == 2 and not s.paired:
        sizes = sizes[:, :1]  # both lanes hold the sum of a complex row
    return sizes.sum().expand(s.rows, s.lanes)


def norms(s: State, passes: Any, rows: Any, weights: Any) -> Any:
    """Return Σ weights |rows|² of every lane."""
    passes.norm(s, rows, weights, s.other_sums)
    return s.total(s.other_sums)


def _unscale(s: State, rows: Any) -> None:
    rows *= (1 / s.scale).to(rows.dtype)[:, None, :]


def _subtract_product(s: State, passes: Any) -> None:
    """R −= A X. Solutions differ in size more than residuals: each in its own units."""
    if s.paired:
        s.sizes.copy_(power_of_two(norms(s, passes, s.x, torch.ones_like(s.inverse))))
    passes.subtract_product(s)


def _forget_directions(s: State) -> None:
    s.rho.fill_(torch.inf)
    s.p.zero_()
