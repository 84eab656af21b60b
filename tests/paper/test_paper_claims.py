"""Every claim must be able to hold and to fail: trials made by hand."""

import math

import pytest

from cofem.paper.claims import Claim
from cofem.paper.contestants import AMP, EM, EXACT, IRLS, LEARNED, OURS, PAPER, SEQUENTIAL, VI
from cofem.paper.figures import fig1, fig1_claims, fig2_claims, fig3_claims

GIB = 2**30


# -- figure 1 ------------------------------------------------------------------------

GOOD = {
    EXACT.name: lambda panel, x: 1.0 if panel in "cf" else 1.0 + 40 * max(0, hardness(x) - 0.5),
    VI.name: lambda panel, x: 50.0 + (30 * math.log(x) if panel == "f" else 0),
    SEQUENTIAL.name: lambda panel, x: (
        1.0 if panel in "cf" else 1.1 + 60 * max(0, hardness(x) - 0.5)
    ),
}


def hardness(x):
    """Sparsity factors and undersampling rates on one scale."""
    return x / 0.2 if x < 1 else x / 8


def figure_1(**errors):
    """Trials with the paper's outcome, and the methods in ``errors`` changed."""
    laws = {**GOOD, "EM/IRLS check": GOOD[EXACT.name], "EM/IRLS, our start": GOOD[EXACT.name],
            PAPER.name: GOOD[EXACT.name], LEARNED.name: GOOD[EXACT.name],
            OURS.name: GOOD[EXACT.name], AMP.name: GOOD[EXACT.name]}  # fmt: skip
    laws |= {getattr(fig1_claims, name).name: law for name, law in errors.items()}
    return {
        panel: [
            {"x": float(x), "seed": seed, "method": method, "nrmse": law(panel, x),
             "diverged": int(method == AMP.name and panel in "cf")}
            for x in setting.points for seed in range(2) for method, law in laws.items()
        ]
        for panel, setting in fig1.PANELS.items()
    }  # fmt: skip


def test_the_papers_own_outcome_holds_throughout():
    claims = fig1_claims.check(figure_1())
    verdicts = [claim.held for claim in claims]
    # Where neither setting loses a problem, nothing is said about which loses fewer.
    assert verdicts.count(None) == 1
    assert all(verdict is not False for verdict in verdicts), [c for c in claims if not c.held]


def off(method, by=3.0):
    law = GOOD.get(method.name, GOOD[EXACT.name])
    return lambda panel, x: law(panel, x) + by


@pytest.mark.parametrize(
    ("judge", "changed"),
    [
        (fig1_claims.em_is_irls, {"CHECK": off(EXACT)}),
        (lambda rows: fig1_claims.coincide(rows, PAPER), {"PAPER": off(PAPER)}),
        (lambda rows: fig1_claims.coincide(rows, OURS), {"OURS": off(OURS)}),
        (fig1_claims.near_the_transition, {"OURS": off(OURS)}),
        (fig1_claims.learned_is_no_worse, {"LEARNED": off(EXACT)}),
        (fig1_claims.start_matters, {"EXACT_FROM_DATA": off(EXACT, 20.0)}),
        (fig1_claims.low_sparsity, {"AMP": off(AMP, 10.0)}),
        (fig1_claims.low_sparsity, {"VI": lambda panel, x: 1.0}),
        (fig1_claims.amp_follows_em, {"AMP": off(AMP)}),
        (
            lambda rows: fig1_claims.decays_faster(rows, SEQUENTIAL, "ab", "f"),
            {"SEQUENTIAL": off(EXACT, -0.5)},
        ),
        (
            lambda rows: fig1_claims.decays_faster(rows, VI, "de", "r"),
            {"VI": lambda panel, x: 0.5},
        ),
        (fig1_claims.convolution_is_easy, {"SEQUENTIAL": off(SEQUENTIAL, 10.0)}),
        (fig1_claims.vi_fails, {"VI": lambda panel, x: 9.0}),
        (fig1_claims.vi_follows_decay, {"VI": lambda panel, x: abs(x - 0.1)}),
    ],
)
def test_each_claim_of_figure_1_can_fail(judge, changed):
    claim = judge(figure_1(**changed))
    assert claim.held is False, claim


def test_amp_must_diverge_in_every_trial():
    rows = figure_1()
    assert fig1_claims.amp_diverges(rows).held
    next(r for r in rows["f"] if r["method"] == AMP.name)["diverged"] = 0
    claim = fig1_claims.amp_diverges(rows)
    assert claim.held is False
    assert "19 of 20" in claim.evidence


def test_our_default_is_better_where_the_papers_setting_loses():
    claim = fig1_claims.near_the_transition(figure_1(PAPER=off(PAPER, 20.0)))
    assert claim.held
    assert "ours 0" in claim.evidence


# -- figure 2 ------------------------------------------------------------------------


def figure_2(seconds=None, status=None, largest=15):
    """Times by power laws: exact methods D³, the others D log D; nothing is stopped."""
    laws = {
        EM.name: lambda D: 1e-8 * D**3,
        IRLS.name: lambda D: 1e-9 * D**3,
        AMP.name: lambda D: 1e-4 * D * math.log2(D),
        SEQUENTIAL.name: lambda D: 1e-7 * D**2.5,
        PAPER.name: lambda D: 1e-6 * D * math.log2(D),
        OURS.name: lambda D: 1e-7 * D * math.log2(D),
    }
    # A dense product costs D²; AMP and Seq begin ahead of CoFEM and grow faster.
    dense = {PAPER.name: lambda D: 1e-5 * D**2, OURS.name: lambda D: 9e-6 * D**2,
             AMP.name: lambda D: 1e-7 * D**2.2}  # fmt: skip
    memory = {m.name: lambda D: 8 * D**2 for m in (EM, IRLS, SEQUENTIAL)}
    rows = {}
    for panel in "abcdef":
        low = panel in "abc"
        methods = (EM, IRLS, AMP, PAPER, OURS) if low else (SEQUENTIAL, PAPER, OURS)
        of = laws | (dense if panel in "ad" else {}) | (seconds or {})
        rows[panel] = [
            {"D": 2**p, "seed": 0, "method": m.name, "time_limit": 1e9, "memory_limit": 8.0 * GIB,
             "status": (status or {}).get((m.name, 2**p), "done"),
             "seconds": of[m.name](2**p), "products": 100, "nrmse": 1.5,
             "peak_bytes": int(memory.get(m.name, lambda D: 3000 * D)(2**p))}
            for p in (range(9, largest + 1) if low else range(12, largest + 4)) for m in methods
        ]  # fmt: skip
    return rows


def test_the_papers_outcome_of_figure_2_holds():
    claims = fig2_claims.check(figure_2())
    assert all(claim.held for claim in claims), [c for c in claims if not c.held]


def test_being_slower_at_a_small_size_says_nothing_about_a_large_one():
    slow = {PAPER.name: lambda D: 1e3 * D}
    small, large = figure_2(slow, largest=13), figure_2(slow, largest=15)
    for panel in "bc":
        for rival in (EM, IRLS, AMP):
            assert fig2_claims.passes(small, panel, PAPER, rival).held is None
            assert fig2_claims.passes(large, panel, PAPER, rival).held is False


@pytest.mark.parametrize(
    ("judge", "seconds"),
    [
        (lambda rows: fig2_claims.grows(rows, "b", OURS), {OURS.name: lambda D: 1e-9 * D**1.5}),
        (lambda rows: fig2_claims.passes(rows, "c", PAPER, AMP), {AMP.name: lambda D: 1e-9 * D}),
        (
            lambda rows: fig2_claims.beats_seq(rows, "e", PAPER),
            {SEQUENTIAL.name: lambda D: 1e-12 * D**2.5},
        ),
        (
            lambda rows: fig2_claims.faster_than_em_when_dense(rows, PAPER),
            {EM.name: lambda D: 2e-5 * D**2},
        ),
        (
            lambda rows: fig2_claims.gap_shrinks(rows, "a", OURS, AMP),
            {AMP.name: lambda D: 1e-7 * D**1.9},
        ),
        (
            lambda rows: fig2_claims.gap_shrinks(rows, "d", PAPER, SEQUENTIAL),
            {SEQUENTIAL.name: lambda D: 1e-7 * D**1.9},
        ),
    ],
)
def test_claims_about_time_can_fail(judge, seconds):
    claim = judge(figure_2(seconds))
    assert claim.held is False, claim


def test_a_rival_that_cofem_is_always_ahead_of_leaves_no_gap():
    rows = figure_2({SEQUENTIAL.name: lambda D: 1e-4 * D**1.9})
    claim = fig2_claims.gap_shrinks(rows, "d", OURS, SEQUENTIAL)
    assert claim.held
    one = [row for row in rows["d"] if row["D"] == 2**12]
    assert fig2_claims.gap_shrinks({"d": one}, "d", OURS, SEQUENTIAL).held is None


def test_memory_must_follow_its_law():
    rows = figure_2()
    assert fig2_claims.memory(rows, "b", EM).held
    assert fig2_claims.memory(rows, "b", OURS).held
    for row in rows["b"]:
        row["peak_bytes"] = 100 * row["D"] ** 2 if row["method"] == OURS.name else 10**9
    assert fig2_claims.memory(rows, "b", EM).held is False
    assert fig2_claims.memory(rows, "b", OURS).held is False


def stopped(method, from_power, why):
    first = {(method.name, 2**from_power): why}
    return first | {(method.name, 2**p): "not run" for p in range(from_power + 1, 19)}


def test_a_rival_that_was_stopped_is_slower_than_its_limit():
    rows = figure_2(status=stopped(EM, 13, "time limit"))
    claim = fig2_claims.passes(rows, "b", PAPER, EM)
    assert claim.held
    assert "stopped at 2^13 (time limit" in claim.evidence
    for row in rows["b"]:  # a limit below CoFEM's own time says nothing
        row["time_limit"] = 1e-6
    assert fig2_claims.passes(rows, "b", PAPER, EM).held is None
    full = figure_2(status=stopped(IRLS, 14, "memory limit"))
    assert fig2_claims.passes(full, "c", PAPER, IRLS).held


def test_a_rival_that_diverged_is_not_compared():
    rows = figure_2({AMP.name: lambda D: 1e-9 * D})
    for row in rows["c"]:
        row["nrmse"] = 100.0 if row["method"] == AMP.name else 1.0
    claim = fig2_claims.passes(rows, "c", OURS, AMP)
    assert claim.held is None
    assert "100 % NRMSE" in claim.evidence


def test_cofem_that_was_stopped_has_not_passed():
    slow = {PAPER.name: lambda D: 1e3 * D}
    rows = figure_2(slow, status=stopped(PAPER, 14, "time limit"))
    assert fig2_claims.passes(rows, "b", PAPER, EM).held is None
    late = figure_2(status=stopped(PAPER, 10, "time limit") | stopped(EM, 12, "time limit"))
    assert "2^9" in fig2_claims.passes(late, "b", PAPER, EM).evidence
    rows = figure_2(status=stopped(PAPER, 14, "time limit"))
    assert fig2_claims.beats_seq(rows, "e", PAPER).held is False
    both = figure_2(status=stopped(PAPER, 14, "time limit") | stopped(SEQUENTIAL, 14, "time limit"))
    assert fig2_claims.beats_seq(both, "e", PAPER).held
    nothing = figure_2(
        status=stopped(PAPER, 12, "time limit") | stopped(SEQUENTIAL, 12, "time limit")
    )
    assert fig2_claims.beats_seq(nothing, "e", PAPER).held is None


# -- figure 3 ------------------------------------------------------------------------


def probes(**changed):
    return [
        {"K": K, "seed": 0, "method": method, "nrmse": 1.2,
         **{name: value / math.sqrt(K) for name, value in {
             "monte_carlo": 1.0, "lemma": 1.01, "theorem": 3.0, "theorem_best": 2.0,
             "h_unscaled_lemma": 1.0, "h_scaled_lemma": 0.3, "h_bound": 0.5, **changed}.items()},
         "worst_share": changed.get("worst_share", 0.9)}
        for K in (1, 4, 16) for method in (PAPER.name, OURS.name)
    ]  # fmt: skip


def steps(with_50=20, with_100=20, without_50=50, without_100=100, growth=2.0):
    return [
        {"D": D, "seed": 0, "method": method, "with_50": with_50, "with_100": with_100,
         "without_50": without_50 * factor, "without_100": without_100 * factor}
        for D, factor in ((256, 1.0), (1024, growth)) for method in (PAPER.name, OURS.name)
    ]  # fmt: skip


def test_the_papers_outcome_of_figure_3_holds():
    claims = fig3_claims.check({"a": probes(), "b": steps()})
    assert all(claim.held for claim in claims), [c for c in claims if not c.held]


@pytest.mark.parametrize(
    ("judge", "changed"),
    [
        (lambda rows: fig3_claims.theorem_bounds(rows, PAPER), {"monte_carlo": 4.0}),
        (fig3_claims.lemma_is_exact, {"lemma": 2.0}),
        (fig3_claims.best_theta_is_tighter, {"theorem_best": 3.5}),
        (fig3_claims.best_theta_is_tighter, {"theorem_best": 1.005}),
        (fig3_claims.assumption_free, {"worst_share": 1.1}),
        (fig3_claims.scaling_helps, {"h_unscaled_lemma": 0.4}),
    ],
)
def test_each_claim_about_probes_can_fail(judge, changed):
    assert judge(probes(**changed)).held is False


def test_a_standard_deviation_that_does_not_decay_is_seen():
    flat = [{**row, "monte_carlo": 1.0} for row in probes()]
    assert fig3_claims.decay(flat).held is False


@pytest.mark.parametrize(
    ("judge", "changed"),
    [
        (fig3_claims.grows_with_iterations, {"without_100": 55}),
        (fig3_claims.grows_with_size, {"growth": 1.1}),
        (fig3_claims.stays_flat, {"with_100": 30}),
    ],
)
def test_each_claim_about_steps_can_fail(judge, changed):
    assert judge(steps(**changed), OURS).held is False


def test_a_claim_says_what_it_found():
    assert str(Claim("a", False, "b")) == "**Did not hold:** a. b."
    assert str(Claim("a", None, "b")) == "**Not measured:** a. b."
