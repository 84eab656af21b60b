"""What a fit is run with, and what it leaves, whatever the prior."""

from __future__ import annotations

from dataclasses import dataclass

from cofem.arguments import whole_number
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.learning.loop import Keeper, Outcome
from cofem.learning.recording import Callback
from cofem.learning.sites.marginals import Marginals
from cofem.learning.supports.draws import Draws
from cofem.model.methods import Method
from cofem.model.model import Model

# The largest number of iterations where the user does not say: of expectation propagation and of
# rivals, and of EM, which moves slowly where columns are coherent (``docs/notes/stopping.md``).
MAX_ITER, EM_ITER = 100, 300


@dataclass(frozen=True)
class Settings:
    """What a fit is run with, besides its model.

    ``em_iter`` is the largest number of iterations of "ard", ``max_iter`` that of all others.
    """

    method: Method
    seed: int
    max_iter: int
    em_iter: int
    tol: float
    callback: Callback | None = None
    keeper: Keeper | None = None
    group: Group | None = None
    may_sample: bool = True


@dataclass(frozen=True)
class Learned:
    """A fit: under which prior, the model with its noise, and where it ended."""

    prior: str
    model: Model
    outcome: Outcome
    sites: list[tuple[Array, Array]] | None = None
    marginals: Marginals | Draws | None = None


def iterations_of(max_iter: int | None, tol: float) -> tuple[int, int]:
    """Return the largest numbers of iterations, that of EM second.

    Examples
    --------
    >>> iterations_of(None, 1e-4), iterations_of(None, 0.0), iterations_of(7, 1e-4)
    ((100, 300), (100, 100), (7, 7))
    """
    if max_iter is None:
        return MAX_ITER, EM_ITER if tol > 0 else MAX_ITER
    asked = whole_number("max_iter", max_iter, least=1)
    return asked, asked
