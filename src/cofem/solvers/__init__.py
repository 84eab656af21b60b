"""Linear algebra without matrices: batched solves, diagonals and determinants by probes."""

from cofem.solvers.cg import CGResult, Status, solve
from cofem.solvers.probes import DiagonalEstimate, ExtraSystems, estimate_diagonal, rademacher
from cofem.solvers.quadrature import log_determinant
from cofem.solvers.systems import ShiftedGram, preconditioner_diagonal

__all__ = [
    "CGResult",
    "DiagonalEstimate",
    "ExtraSystems",
    "ShiftedGram",
    "Status",
    "estimate_diagonal",
    "log_determinant",
    "preconditioner_diagonal",
    "rademacher",
    "solve",
]
