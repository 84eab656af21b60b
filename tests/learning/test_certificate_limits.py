"""Every limit of the certificate, from both sides, on ends that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from cofem.learning import certificate
from cofem.learning.certificate import Certificate, certify, grounds, is_crowded
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.registry import make_esteps
from cofem.learning.sites.matching import Look
from cofem.learning.sites.propagation import Propagation
from cofem.model.methods import EM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Dense

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


@pytest.mark.parametrize(("lowest", "believed"), [(1.01, True), (0.99, False)])
def test_exact_cavities_are_of_coordinates_that_are_probably_not_zero(lowest, believed):
    asked = []
    estep = CovarianceFreeEStep.__new__(CovarianceFreeEStep)
    estep.spot_check = lambda alpha, cavity, chosen: (
        asked.append(chosen.tolist()) or (lowest * certificate.LOWEST_RATIO, 7)
    )
    one = end()
    one.shares.spike = np.where(np.isin(np.arange(D), [3, 17]), 0.4, 0.6)
    one.precisions, one.seen = [np.ones(D)], [SimpleNamespace(precision=np.ones(D))]
    found = Certificate.GIVEN if believed else Certificate.COHERENT
    assert certify(one, [estep]) == (found, 7)
    assert asked == [[3, 17]]
    one.shares.spike[:] = 0.6  # nothing to look at
    estep.spot_check = lambda alpha, cavity, chosen: (1.0 if not len(chosen) else 0.0, 0)
    assert certify(one, [estep]) == (Certificate.GIVEN, 0)


def plain(**changed):
    """An end of one task whose limit of what can be recovered is known."""
    one, share = end(used=0.2), certificate.most_per_datum(8 / D)
    one.n_data = N
    kind = {"n_unknowns": D, "tasks": [None], "tie": SimpleNamespace(labels=None),
            "nonnegative": False, "like": np.zeros(1), "sparsifier": None}  # fmt: skip
    one.model = SimpleNamespace(**{**kind, **changed})
    return one, share * 8 / N


@pytest.mark.parametrize(("used", "crowded"), [(1.01, True), (0.99, False)])
def test_crowded_is_what_uses_more_than_can_be_recovered(monkeypatch, used, crowded):
    monkeypatch.setattr(certificate, "directions_above_noise", lambda *_: (8.0, 5))
    one, line = plain()
    one.look.used = used * line
    assert is_crowded(one, None) == (crowded, 5)


@pytest.mark.parametrize(
    "other",
    [{"nonnegative": True}, {"like": np.zeros(1, complex)}, {"tasks": [None, None]},
     {"tie": SimpleNamespace(labels=np.zeros(D, int))}, {"sparsifier": object()},
     {"n_unknowns": N}],
)  # fmt: skip
def test_where_the_limit_is_not_known_nothing_is_crowded(monkeypatch, other):
    monkeypatch.setattr(certificate, "directions_above_noise", lambda *_: (8.0, 5))
    one, _ = plain(**other)
    one.look.used = 1.0
    assert is_crowded(one, None) == (False, 0)


def test_many_ends_are_judged_as_each_of_them():
    rng = np.random.default_rng(0)
    looks = {"used": 0.9, "log_move": 0.05, "distance": 0.1, "apart": 0.05, "departs": 0.3}
    p = 200
    own = {name: limit * rng.uniform(0.5, 1.1, p) for name, limit in looks.items()}
    own["distance"][0] = own["log_move"][1] = np.nan
    slabs, typical = rng.uniform(0.05, 0.3, p), rng.uniform(0.03, 0.2, p)
    many = end(most=0.3, **own)
    told = grounds(many, slabs, typical)
    met = set()
    for i in range(p):
        one = end(slabs=slabs[i], most=0.3, typical=typical[i], **{k: v[i] for k, v in own.items()})
        first = next((why for why, refused in told if refused[i]), Certificate.GIVEN)
        assert certify(one, [])[0] is first
        met.add(first)
    assert met == set(Certificate)


def test_a_matrix_of_one_direction_has_one_above_the_noise():
    random = np.random.default_rng(0)
    phi = np.outer(random.normal(size=30), random.normal(size=50))
    y = phi[:, 0] + 0.01 * random.normal(size=30)
    model = Model((Task(Dense(phi), y, 1e4),), Tie())
    rule = Propagation(model, 10.0, True, 1e-4)
    found, _ = certificate.directions_above_noise(rule, make_esteps(model, EM(), 0)[0])
    assert found == pytest.approx(1.0, abs=0.01)
