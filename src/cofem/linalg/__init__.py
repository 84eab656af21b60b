"""Linear algebra without matrices: batched solves, diagonals and determinants by probes."""

from cofem.linalg.cg import CGResult, Status, solve
from cofem.linalg.preconditioners import preconditioner_diagonal
from cofem.linalg.probes import DiagonalEstimate, ExtraSystems, estimate_diagonal, rademacher
from cofem.linalg.quadrature import log_determinant
from cofem.linalg.systems import ShiftedGram

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
