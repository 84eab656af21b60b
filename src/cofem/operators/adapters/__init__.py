"""From what users have to operators: matrices, functions, operators of other libraries."""

from cofem.operators.adapters.doors import as_operator, multiplies_vectors
from cofem.operators.adapters.functions import Functions, from_functions
from cofem.operators.adapters.jax_operators import LineaxOperator
from cofem.operators.adapters.matvec import Matvec
from cofem.operators.adapters.physics import PhysicsOperator, from_physics

__all__ = [
    "Functions",
    "LineaxOperator",
    "Matvec",
    "PhysicsOperator",
    "as_operator",
    "from_functions",
    "from_physics",
    "multiplies_vectors",
]
