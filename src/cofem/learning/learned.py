"""What a fit is run with, and what it leaves, whatever the prior."""

from __future__ import annotations

from dataclasses import dataclass

from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.learning.checkpoint import Checkpoint
from cofem.learning.loop import Outcome
from cofem.learning.recording import Callback, Listener
from cofem.learning.sites.marginals import Marginals
from cofem.learning.supports.draws import Draws
from cofem.model.methods import Method
from cofem.model.model import Model


@dataclass(frozen=True)
class Settings:
    """What a fit is run with, besides its model."""

    method: Method
    seed: int
    max_iter: int
    tol: float
    callback: Callback | None = None
    keeper: Checkpoint | None = None
    group: Group | None = None
    may_sample: bool = True

    @property
    def stopped(self) -> bool:
        """Whether the callback has ended the fit: then nothing else begins."""
        return isinstance(self.callback, Listener) and self.callback.stopped


@dataclass(frozen=True)
class Learned:
    """A fit: under which prior, the model with its noise, and where it ended.

    ``method``: what ran in the end, where it is not what was asked for.
    """

    prior: str
    model: Model
    outcome: Outcome
    sites: list[tuple[Array, Array]] | None = None
    marginals: Marginals | Draws | None = None
    method: Method | None = None
