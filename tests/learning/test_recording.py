"""The history of a run, and the end of those that stop when the mean has settled."""

import numpy as np
import pytest

from cofem.learning.recording import Recorder
from cofem.learning.stopping import Verdict


def ends(changes, max_iter=10, tol=0.1):
    """Return the verdict of every iteration of a mean of length one that turns by these angles."""
    recorder, angle, found = Recorder(max_iter, tol), 0.0, []
    for change in changes:
        angle += 2 * np.arcsin(change / 2)  # then the new mean is so far from the last
        recorder.add([np.array([np.cos(angle), np.sin(angle)])], np.ones(2), products=1)
        found.append(recorder.verdict(recorder.mean_settled, Verdict.MEAN_NOT_SETTLED))
    return recorder, found


def test_a_mean_has_settled_when_it_moves_by_no_more_than_the_tolerance():
    recorder, found = ends([0.0, 0.5, 0.11, 0.09])
    assert found == [None, None, None, Verdict.MEAN_SETTLED]
    np.testing.assert_allclose(recorder.history["change"][1:], [0.5, 0.11, 0.09])
    assert recorder.history["iteration"] == [1, 2, 3, 4]


def test_the_first_iteration_has_nothing_to_settle_from():
    assert ends([0.0], tol=np.inf)[1] == [None]


@pytest.mark.parametrize(
    ("tol", "last"), [(0.1, Verdict.MEAN_NOT_SETTLED), (0.0, Verdict.AS_ASKED)]
)
def test_the_last_iteration_ends_a_run_that_has_not_settled(tol, last):
    changes = [0.0, 0.5, 0.5] if tol else [0.0, 0.0, 0.0]
    assert ends(changes, max_iter=3, tol=tol)[1] == [None, None, last]


def test_a_callback_sees_the_mean_in_the_shape_of_z_and_stops_the_run_by_true_alone():
    for answer, verdict in ((True, Verdict.STOPPED), (np.True_, Verdict.STOPPED), (1, None)):
        seen = []

        def callback(state, answer=answer, seen=seen):
            seen.append(state.mean)
            return answer

        recorder = Recorder(5, 0.1, callback)
        recorder.add([np.array([1.0, 2.0]), np.array([3.0, 4.0])], np.ones(2), products=1)
        assert recorder.verdict(None, Verdict.MEAN_NOT_SETTLED) is verdict
        np.testing.assert_array_equal(seen[0], [[1.0, 2.0], [3.0, 4.0]])
        Recorder(5, 0.1, callback).add([np.array([1.0, 2.0])], np.ones(2), products=1)
        np.testing.assert_array_equal(seen[1], [1.0, 2.0])
