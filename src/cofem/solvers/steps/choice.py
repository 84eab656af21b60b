"""Which steps a batch of systems takes; torch is imported when it is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cofem import backend
from cofem.backend import Array, MaskedTransform, has_engine
from cofem.solvers.steps.array_steps import ArraySteps
from cofem.solvers.steps.protocol import Steps
from cofem.solvers.systems import Matrix, ShiftedGram

# X, R and P, right-hand sides and solutions, starts, spectra and the FFT's own work space.
ARRAYS = backend.ARRAYS_OF_A_BATCH


@contextlib.contextmanager
def steps_for(
    matrix: Matrix,
    rhs: Array,
    inverse: Array,
    start: Array | None,
    joint: bool,
    keep_coefficients: int,
) -> Iterator[Steps]:
    """Lend steps for A x = rhs, A of unit scale, rhs (Q, D) of a library other than NumPy.

    ``keep_coefficients``: for how many steps.
    """
    try:
        if not has_engine(rhs):
            yield ArraySteps(matrix, rhs, inverse, start)
            return
        from cofem.solvers.steps.cuda import pool

        product = fused_product(matrix, rhs) or matrix.bulk_parts()
        with pool.steps_for(product, rhs, keep_coefficients) as steps:
            steps.load(product, rhs, start, inverse, matrix.diagonal, joint)
            yield steps
    except Exception as error:
        if not backend.is_out_of_memory(error):
            raise
        backend.forget_engines()  # what is kept for later stands in the way of trying again
        raise MemoryError(
            f"device {backend.device_of(rhs)} has no room for {rhs.shape[0]} systems of "
            f"{rhs.shape[1]:,} unknowns ({rhs.dtype}), about {ARRAYS} arrays of that size: solve "
            "fewer at a time (cofem.CoFEM(block=…)), or pass float32 data"
        ) from error


def fused_product(matrix: Matrix, rhs: Array) -> MaskedTransform | None:
    """Return ΦᴴΦ for rows like ``rhs`` if it can be part of the steps' own passes."""
    if not isinstance(matrix, ShiftedGram) or not hasattr(matrix.operator, "masked_transform"):
        return None
    found: MaskedTransform | None = matrix.operator.masked_transform(rhs)
    return found
