"""Whether a method can fit a model: checked before anything is computed."""

from __future__ import annotations

from cofem.model.methods import Banded, Method
from cofem.model.model import Model
from cofem.operators import Autoregressive, LinearOperator


def refuse_unfit(method: Method, model: Model) -> None:
    """Raise ValueError for what the method cannot fit; ``method.takes`` says what it can."""
    if method.name == Banded.name:
        _refuse_not_banded(model)
    asked = {
        "joint": ("joint tasks", len(model.tasks) > 1),
        "groups": ("groups", model.tie.labels is not None),
        "coupling": ("a coupling", model.tie.coupling is not None),
        "nonnegative": ("nonnegative=True", model.nonnegative),
        "sparsifier": ("a sparsifier", model.sparsifier is not None),
    }
    for feature, (words, wanted) in asked.items():
        if wanted and feature not in method.takes:
            raise ValueError(f'method "{method.name}" does not take {words}; use "cofem"')


def is_banded(operator: LinearOperator) -> bool:
    """Whether there are exact recursions in linear time for this Φ."""
    return isinstance(operator, Autoregressive) and len(operator.coefficients) <= 2


def _refuse_not_banded(model: Model) -> None:
    unfit = [t.operator for t in model.tasks if not is_banded(t.operator)]
    if unfit and any(t.intercept is not None or t.weights is not None for t in model.tasks):
        raise ValueError(
            'method "banded" takes neither intercept=True nor noise that differs between rows; '
            'use "cofem" or "auto"'
        )
    if unfit:
        raise ValueError(
            'method "banded" needs phi to be an operators.Autoregressive of order 1 or 2, '
            f"got {unfit[0]!r}"
        )
