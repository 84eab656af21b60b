"""The state of CG on a batch of systems, in arrays that stay where they are.

A captured graph of kernels reads and writes fixed addresses, so the arrays are made
once and filled anew for every batch of systems.
"""

from __future__ import annotations

from typing import Any

import torch

# mypy: disable-error-code="no-any-return"


class State:
    """Rows, their scalars, and how systems lie in them.

    Parameters
    ----------
    rows : int
        Rows of the arrays: half as many as systems if real systems travel in pairs.
    n : int
        Unknowns of a system.
    lanes : int
        2 for complex numbers and for pairs of real ones, otherwise 1.
    paired : bool
        Whether the two lanes are two systems.
    slots : int
        In how many parts a row's sums are left.
    """

    def __init__(
        self, rows: int, n: int, lanes: int, paired: bool, slots: int, dtype: Any, device: Any
    ) -> None:
        self.rows, self.n, self.lanes, self.paired, self.slots = rows, n, lanes, paired, slots
        self.dtype, self.device = dtype, device

        def scalars(kind: Any, *shape: int) -> Any:
            return torch.zeros(shape or (rows, lanes), dtype=kind, device=device)

        self.x, self.r, self.p = (scalars(dtype, rows, n, lanes) for _ in range(3))
        self.inverse, self.diagonal = scalars(dtype, n), scalars(dtype, n)
        self.rho, self.goal = scalars(torch.float64), scalars(torch.float64)
        self.done, self.bad, self.steps = (scalars(torch.int32) for _ in range(3))
        # Of whole batches, in the systems' own order: tolerances, scales and verdicts.
        self.rtol, self.balance, self.scale, self.size, self.best, self.true, self.target = (
            scalars(torch.float64) for _ in range(7)
        )
        self.zero, self.stuck = scalars(torch.bool), scalars(torch.bool)
        self.sizes = torch.ones_like(self.rho)  # of rows that share a transform
        self.rho_sums, self.diagonal_sums, self.operator_sums, self.other_sums = (
            scalars(torch.float64, rows, lanes, slots) for _ in range(4)
        )
        self.taken = scalars(torch.int32, 1)
        self.lengths = self.ratios = scalars(torch.float64, 1)
        self.order = list(range(rows))

    def head(self, rows: int) -> State:
        """Return the first rows, sharing memory."""
        if rows == self.rows:
            return self
        view = object.__new__(State)
        view.__dict__.update(self.__dict__)
        view.rows = rows
        for name in (
            "x", "r", "p", "rho", "goal", "done", "bad", "steps",
            "rho_sums", "diagonal_sums", "operator_sums", "other_sums",
        ):  # fmt: skip
            setattr(view, name, getattr(self, name)[:rows])
        return view

    # -- systems in rows -------------------------------------------------------------

    def put(self, target: Any, systems: Any) -> None:
        """Write systems (Q, D) into the rows of ``target``; other rows may hold anything."""
        count = systems.shape[0]
        if not self.paired:
            source = torch.view_as_real(systems) if self.lanes == 2 else systems[:, :, None]
            target[:count].copy_(source)
            return
        target[: -(-count // 2), :, 0].copy_(systems[0::2])
        target[: count // 2, :, 1].copy_(systems[1::2])
        if count % 2:
            target[count // 2, :, 1].zero_()

    def get(self, source: Any, scale: Any, out: Any) -> None:
        """Write the systems in the rows, each times its scale, into ``out`` (Q, D)."""
        factor = scale.to(self.dtype)
        if not self.paired:
            place = torch.view_as_real(out) if self.lanes == 2 else out[:, :, None]
            torch.mul(source, factor[:, None, :], out=place)
            return
        torch.mul(source[:, :, 0], factor[:, :1], out=out[0::2])
        half = out.shape[0] // 2
        if half:
            torch.mul(source[:half, :, 1], factor[:half, 1:], out=out[1::2])

    def per_system(self, scalars: Any, count: int) -> Any:
        """Pick each system's entry out of scalars (…, rows, lanes): (…, Q)."""
        flat = scalars.reshape(*scalars.shape[:-2], -1)
        return flat[..., :: 1 if self.paired else self.lanes][..., :count]

    def per_slot(self, values: Any) -> Any:
        """Spread numbers of systems (Q,) over (rows, lanes); a pair's empty half gets zero."""
        flat = torch.zeros(self.rows * self.lanes, dtype=values.dtype, device=self.device)
        if self.paired:
            flat[: values.shape[0]] = values
            return flat.reshape(self.rows, self.lanes)
        return values[:, None].expand(self.rows, self.lanes)

    def total(self, sums: Any) -> Any:
        """Add up the parts that programs left: (rows, lanes)."""
        parts = sums.sum(dim=-1)
        if self.lanes == 2 and not self.paired:
            parts = parts.sum(dim=-1, keepdim=True).expand(self.rows, 2)
        return parts

    def set(self, **values: Any) -> None:
        """Write scalars to their addresses, see :class:`~cofem.solvers.steps.protocol.Scalars`."""
        for name, value in values.items():
            getattr(self, name).copy_(value)

    def running(self) -> Any:
        """Which lanes neither rest nor have failed."""
        return (self.done == 0) & (self.bad == 0)

    def failed(self) -> Any:
        """Where the matrix was not positive."""
        return self.bad != 0

    def residuals(self) -> Any:
        """rᴴM⁻¹r of every lane."""
        return self.total(self.rho_sums)

    def swap_rows(self, i: int, j: int) -> None:
        """Exchange two rows and all that belongs to them."""
        self.order[i], self.order[j] = self.order[j], self.order[i]
        for name in (
            "x", "r", "p", "rho", "goal", "done", "bad", "steps", "rho_sums",
        ):  # fmt: skip
            array = getattr(self, name)
            kept = array[i].clone()
            array[i] = array[j]
            array[j] = kept


def power_of_two(squares: Any) -> Any:
    """Return powers of two near √squares, and one where that is no positive number."""
    usable = (squares > 0) & torch.isfinite(squares)
    exponent = torch.frexp(torch.where(usable, squares, 1.0).sqrt()).exponent
    return torch.ldexp(torch.ones_like(squares), exponent)
