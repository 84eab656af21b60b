"""A matrix and its functions."""

from operator_tools import random_array

from cofem.operators import (
    from_functions,
)

A = random_array((4, 6), "float64", 0)


# -- functions -------------------------------------------------------------------


def functions(forward=lambda z: z @ A.T, adjoint=lambda y: y @ A, **options):
    return from_functions(forward, adjoint, **{"shape": (4, 6), "dtype": float, **options})
