"""The walk of one fit through the files: what the documentation says of it is so."""

import importlib.util
import re
from pathlib import Path

import pytest

import cofem
from cofem import simulate

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "how_it_works.md"
DRAWING = REPOSITORY / "docs" / "images" / "walk_after.svg"
# numba tells a profiler of compiled functions in some versions only.
COMPILED = {"solvers/kernels.py", "learning/sites/mixture_kernels.py"}


@pytest.fixture(scope="module")
def walk():
    spec = importlib.util.spec_from_file_location("walk", REPOSITORY / "benchmarks" / "walk.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def problem(walk):
    """Return one that was fitted before: all is imported, and its operator has what it keeps."""
    made = simulate.dct(walk.D, walk.SEED)
    cofem.fit(made.phi, made.y)
    return made


def drawn():
    return re.findall(r">\d+\. ([^<]+)<", DRAWING.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("row", "known"), [("now", False), ('now, with `prior="ard"` and known noise', True)]
)
def test_a_fit_runs_through_the_files_that_the_page_counts(walk, problem, row, known, monkeypatch):
    monkeypatch.setenv("COFEM_NUM_THREADS", "1")  # a profiler sees one thread
    options = {"prior": "ard", "noise_precision": problem.noise_precision} if known else {}
    files, calls = walk.walk(lambda: cofem.fit(problem.phi, problem.y, **options))
    order = walk.layers()
    rank = {name: i for i, layer in enumerate(order) for name in layer}
    assert walk.later_imports(files, rank) == walk.later_calls(calls, rank) == []
    counted = re.search(rf"\| {re.escape(row)} \| (\d+) \| 0 \| 0 \|", PAGE.read_text("utf-8"))
    compiled = {"solvers/kernels.py"} if known else COMPILED
    assert len(set(files) | compiled) == int(counted[1])
    if not known:
        assert set(files) | compiled == set(drawn())
