"""CG with the steps of a device, on the CPU."""

import pytest

from cofem.operators import Dense
from cofem.solvers import ShiftedGram, solve
from cofem.solvers.steps import choice

torch = pytest.importorskip("torch")
eager_steps = pytest.importorskip("eager_steps")
steps = pytest.importorskip("cofem.solvers.steps.cuda.steps")


@pytest.fixture(autouse=True, params=["looks are cheap", "looks are dear"])
def cheap(request, monkeypatch):
    """Plain torch on the CPU, looked at as large batches are on a GPU, or as small ones."""
    monkeypatch.setattr(steps, "make_passes", eager_steps.EagerPasses)
    value = request.param == "looks are cheap"
    monkeypatch.setattr(steps.CudaSteps, "looks_are_cheap", value)
    monkeypatch.setattr(steps.CudaSteps, "steps_between_looks", 1 if value else 3)
    return value


def moved(matrix):
    operator = matrix.operator
    if isinstance(operator, Dense):
        operator = Dense(torch.asarray(operator.matrix))
    return ShiftedGram(operator, matrix.scale, torch.asarray(matrix.diagonal))


def on_device(matrix, rhs, preconditioner, **options):
    """Solve with the steps of a device, as ``solve`` does on CUDA."""
    start = options.pop("start", None)
    if start is not None:
        options["start"] = torch.asarray(start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "has_engine", lambda x: True)
        return solve(
            moved(matrix), torch.asarray(rhs), preconditioner=torch.asarray(preconditioner),
            **options,
        )  # fmt: skip
