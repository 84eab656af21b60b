"""What holds for every method with a loop of its own: refusals, options, array libraries."""

import math
import re

import numpy as np
import pytest
from rival_cases import LIBRARIES, RIVALS

from cofem import backend
from cofem.model.model import Model, Task, Tie
from cofem.operators import DCT, Dense, Identity
from cofem.rivals import sequential
from cofem.rivals.amp import AMP
from cofem.rivals.sequential import Sequential
from cofem.rivals.vi import VI

RUNS = {
    "amp": (RIVALS["amp"].run, AMP),
    "vi": (RIVALS["vi"].run, VI),
    "sequential": (sequential.run, Sequential),
}
REFUSED = {
    "amp": ("joint tasks", "a sparsifier"),
    "vi": ("joint tasks", "a sparsifier", "a coupling", "nonnegative=True"),
    "sequential": ("a sparsifier", "groups", "a coupling", "nonnegative=True"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_fit_is_refused_by_name(name):
    task = RIVALS["vi"].task(0)
    models = {
        "joint tasks": Model((task, task), Tie()),
        "a sparsifier": Model((task,), Tie(), sparsifier=Identity(40)),
        "groups": Model((task,), Tie(np.arange(40) // 5)),
        "a coupling": Model((task,), Tie(coupling=Identity(40))),
        "nonnegative=True": Model((task,), Tie(), nonnegative=True),
    }
    run, options = RUNS[name]
    for what in REFUSED[name]:
        message = re.escape(f'method "{name}" does not take {what}; use "cofem"')
        with pytest.raises(ValueError, match=message):
            run(models[what], options(), np.ones(40), seed=0, max_iter=1, tol=0.0)


@pytest.mark.parametrize(
    ("method", "options", "error"),
    [
        (AMP, {"inner_steps": 0}, ValueError),
        (AMP, {"inner_steps": 2.5}, TypeError),
        (AMP, {"damping": 1.0}, ValueError),
        (AMP, {"damping": -0.1}, ValueError),
        (AMP, {"damping": "much"}, ValueError),
        (AMP, {"initial_precision": 0.0}, ValueError),
        (VI, {"power_steps": 0}, ValueError),
        (VI, {"power_steps": 1.5}, TypeError),
        (VI, {"safety": 0.9}, ValueError),
        (VI, {"safety": math.nan}, ValueError),
        (VI, {"initial_precision": -1.0}, ValueError),
        (Sequential, {"moves_per_iteration": 0}, ValueError),
        (Sequential, {"moves_per_iteration": 2.5}, TypeError),
        (Sequential, {"min_gain": 0.0}, ValueError),
        (Sequential, {"min_gain": math.nan}, ValueError),
    ],
)
def test_options_are_checked_by_name(method, options, error):
    with pytest.raises(error, match=next(iter(options))):
        method(**options)


@pytest.mark.parametrize("name", RIVALS)
def test_what_is_not_known_is_nan(name):
    rival = RIVALS[name]
    report = rival.fit(rival.task(0), max_iter=3).reports[0]
    assert np.isnan(report.variance_error).all()
    assert math.isnan(report.log_evidence_error)
    # Message passing has no evidence; the relaxed bound reports itself.
    assert math.isnan(report.log_evidence) == (name == "amp")


# The power iteration of VI starts from another library's random numbers.
@pytest.mark.parametrize(("name", "tolerance"), [("amp", 1e-10), ("vi", 1e-3)])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("structured", [False, True])
def test_other_libraries_give_the_same(name, tolerance, library, complex_, structured):
    rival, convert = RIVALS[name], LIBRARIES[library]
    task = rival.task(0, complex_=complex_)
    op = DCT(40, np.arange(25)) if structured else task.operator
    n, d = op.shape
    task = Task(op, task.y[:n], 100.0)
    other = Task(op if structured else Dense(convert(op.matrix)), convert(task.y), 100.0)
    expected = rival.fit(task, max_iter=8, alpha=np.full(d, 0.5))
    found = rival.fit(other, max_iter=8, alpha=convert(np.full(d, 0.5)))
    assert type(found.found.means[0]) is type(other.y)
    for mine, theirs in (
        (found.found.means[0], expected.found.means[0]),
        (found.found.alpha, expected.found.alpha),
        (found.reports[0].variance, expected.reports[0].variance),
    ):
        np.testing.assert_allclose(backend.to_numpy(mine), theirs, rtol=tolerance, atol=1e-6)
