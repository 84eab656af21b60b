"""Operators made of operators: one named node for each way to combine them."""

from cofem.operators.algebra.blocks import BlockDiagonal, Stack, block_diagonal, hstack, stack
from cofem.operators.algebra.kronecker import Kronecker, kronecker
from cofem.operators.algebra.nodes import Adjoint, Conjugate, Product, Scaled, Sum
from cofem.operators.algebra.selecting import Extension, Restriction, selected
from cofem.operators.algebra.terms import (
    apply_to_columns,
    is_scalar,
    operator_or_none,
    python_number,
)

__all__ = [
    "Adjoint",
    "BlockDiagonal",
    "Conjugate",
    "Extension",
    "Kronecker",
    "Product",
    "Restriction",
    "Scaled",
    "Stack",
    "Sum",
    "apply_to_columns",
    "block_diagonal",
    "hstack",
    "is_scalar",
    "kronecker",
    "operator_or_none",
    "python_number",
    "selected",
    "stack",
]
