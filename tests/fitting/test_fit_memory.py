"""A fit that would not fit into memory says so before it starts."""

import re
import tracemalloc

import numpy as np
import pytest

import cofem
from cofem.fitting import memory
from cofem.model.choosing import choose_method
from cofem.model.model import Model, Task, Tie
from cofem.operators import DCT


def problem(n):
    return DCT(n, np.arange(0, n, 3)), np.ones(len(range(0, n, 3)))


@pytest.mark.parametrize("method", ["em", "woodbury"])
def test_exact_methods_are_refused_with_the_size_and_the_way_out(method):
    phi, y = problem(3_000_000)
    with pytest.raises(MemoryError) as refused:
        cofem.fit(phi, y, noise_precision=1.0, method=method)
    said = str(refused.value)
    assert f'"{method}" needs about' in said
    assert re.search(r"[0-9.]+ (TB|PB)", said)
    assert 'method="cofem"' in said
    with pytest.raises(MemoryError):
        cofem.posterior(phi, y, precision=1.0, noise_precision=1.0, method=method)


def test_what_fits_is_not_refused(monkeypatch):
    phi, y = problem(300)
    monkeypatch.setattr(memory.backend, "physical_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match="em"):
        cofem.fit(phi, y, noise_precision=1.0, method="em")
    with pytest.raises(MemoryError, match="block"):
        cofem.fit(phi, y, noise_precision=1.0, method=cofem.CoFEM(block=100, report_probes=500))
    monkeypatch.setattr(memory.backend, "physical_memory", lambda: 1e8)
    for method in ("em", "cofem", "woodbury", "sequential", "amp", "vi"):
        cofem.fit(phi, y, noise_precision=1.0, method=method, max_iter=2, tol=0)
    monkeypatch.setattr(
        memory.backend, "physical_memory", lambda: None
    )  # a machine that does not tell
    cofem.fit(phi, y, noise_precision=1.0, method="em", max_iter=2, tol=0)


@pytest.mark.parametrize("method", ["em", "woodbury", "cofem"])
def test_the_estimate_is_within_a_factor_of_three(method):
    phi, y = problem(900)
    model = Model((Task(phi, y, 1e4),), Tie())
    chosen = choose_method(method, model)
    cofem.fit(phi, y, noise_precision=1e4, method=method, max_iter=2, tol=0)  # compile first
    tracemalloc.start()
    cofem.fit(phi, y, noise_precision=1e4, method=method, max_iter=2, tol=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 / 3 < memory.bytes_needed(model, chosen) / peak < 3
