"""A device without room says so in words, with what to do about it."""

import pytest

from cofem.operators import LinearOperator
from cofem.solvers import ShiftedGram, solve

torch = pytest.importorskip("torch")


class Full(LinearOperator):
    """An operator on a device whose memory is full."""

    shape = (4, 4)

    def __init__(self, words):
        self.words = words

    def _forward(self, x):
        raise RuntimeError(self.words)

    _adjoint = _forward

    def _column_norms_squared(self, like):
        return torch.ones(4)


def test_a_full_device_is_a_memory_error():
    gram = ShiftedGram(Full("CUDA out of memory. Tried to allocate 9 GiB"), 1.0, torch.ones(4))
    with pytest.raises(MemoryError, match=r"no room for 3 systems of 4 unknowns.*block="):
        solve(gram, torch.ones(3, 4))


def test_other_errors_stay_what_they_are():
    gram = ShiftedGram(Full("shapes differ"), 1.0, torch.ones(4))
    with pytest.raises(RuntimeError, match="shapes differ"):
        solve(gram, torch.ones(3, 4))
