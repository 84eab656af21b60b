"""Every limit of the certificate, from both sides, on ends that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from cofem.learning import certificate
from cofem.learning.certificate import Certificate, certify
from cofem.learning.sites.matching import Look

N, D, TASKS = 40, 100, 2


def end(*, slabs=0.05, most=1.0, typical=0.9, sparsifier=None, **look):
    """An end that is fine, but for what is given."""
    fine = {"used": 0.2, "log_move": 0.0, "distance": 0.01, "apart": 0.0, "departs": 0.0}
    return SimpleNamespace(
        look=Look(**{**fine, **look}),
        shares=SimpleNamespace(weights=np.array([1 - slabs, slabs / 2, slabs / 2])),
        model=SimpleNamespace(n_precisions=D, tasks=[None] * TASKS, sparsifier=sparsifier),
        n_data=TASKS * N,
        prior=SimpleNamespace(most=most),
        typical=typical,
    )


LIMITS = {
    "used": (certificate.LARGEST_USED, Certificate.USED_UP),
    "log_move": (certificate.LARGEST_MOVE, Certificate.MOVING),
    "distance": (certificate.LARGEST_DISTANCE, Certificate.APART),
    "apart": (certificate.LARGEST_APART, Certificate.APART),
    "departs": (certificate.LARGEST_DEPARTURE, Certificate.COHERENT),
}


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_by_itself(name):
    limit, verdict = LIMITS[name]
    assert certify(end(**{name: 0.99 * limit}), []) == (Certificate.GIVEN, 0)
    assert certify(end(**{name: 1.01 * limit}), []) == (verdict, 0)


@pytest.mark.parametrize("name", ["log_move", "distance"])
def test_a_number_that_is_not_one_is_no_small_number(name):
    assert certify(end(**{name: np.nan}), [])[0] is LIMITS[name][1]


def test_the_noise_may_move_either_way():
    assert certify(end(log_move=-1.01 * certificate.LARGEST_MOVE), [])[0] is Certificate.MOVING


@pytest.mark.parametrize(
    ("per_datum", "typical", "refused"),
    [(1.02, 0.5, True), (0.98, 0.5, False), (1.02, 1.5, False), (0.98, 1.5, False)],
)
def test_many_non_zeros_are_believed_if_the_data_see_them(per_datum, typical, refused):
    # slabs · D non-zeros in each task, and N data.
    slabs = per_datum * certificate.DENSE * N / D
    found, _ = certify(end(slabs=slabs, typical=typical * certificate.BARELY_SEEN), [])
    assert (found is Certificate.DENSE) == refused


@pytest.mark.parametrize(("share", "refused"), [(1.01, True), (0.99, False)])
def test_slabs_at_their_limit_are_held_back(share, refused):
    most = 0.1
    found, _ = certify(end(slabs=share * certificate.AT_LIMIT * most, most=most), [])
    assert (found is Certificate.DENSE) == refused
    # With as many data as unknowns there is no limit to be at.
    assert certify(end(slabs=0.95, most=1.0), [])[0] is Certificate.GIVEN
