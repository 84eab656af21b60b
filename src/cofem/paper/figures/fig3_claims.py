"""What the paper says about figure 3, judged from the trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cofem.paper.claims import Claim, Row, exponent, listing, means
from cofem.paper.contestants import OURS, PAPER, Contestant

Rows = Mapping[str, Sequence[Row]]

FLAT = 1.25  # steps "stay constant" if they grow by less than a quarter
SLOPE = 0.05  # a slope of −½ is within this of it
# The largest of 1024 Monte-Carlo estimates with a standard error of 1/√(2·1000) = 2.2 % each.
EXACT = 0.1
ROUNDING = 1e-9


def check(rows: Rows) -> list[Claim]:
    """Judge every statement about figure 3."""
    steps = [
        judge(rows["b"], contestant)
        for judge in (grows_with_iterations, grows_with_size, stays_flat)
        for contestant in (PAPER, OURS)
    ]
    return [
        *(theorem_bounds(rows["a"], contestant) for contestant in (PAPER, OURS)),
        decay(rows["a"]),
        lemma_is_exact(rows["a"]),
        best_theta_is_tighter(rows["a"]),
        assumption_free(rows["a"]),
        scaling_helps(rows["a"]),
        *steps,
    ]


def theorem_bounds(rows: Sequence[Row], contestant: Contestant) -> Claim:
    """Judge whether Theorem 1 holds after finitely many iterations."""
    mine = [row for row in rows if row["method"] == contestant.name]
    above = [row for row in mine if row["monte_carlo"] > row["theorem"]]
    shares = [row["theorem"] / row["monte_carlo"] for row in mine]
    errors = {row["seed"]: row["nrmse"] for row in mine}
    evidence = (
        f"Exceeded in {len(above)} of {len(mine)} cases; the bound is {min(shares):.3g} to "
        f"{max(shares):.3g} times the Monte-Carlo value; NRMSE in % of the fit by seed: "
        f"{listing(errors)}"
    )
    if above:
        seeds = sorted({row["seed"] for row in above})
        evidence += f"; exceeded on seed {', '.join(map(str, seeds))}"
    return Claim(
        f"{contestant.name}: Theorem 1 with Θ = I bounds the largest standard deviation at "
        "iteration 50, at every K",
        not above,
        evidence,
    )


def decay(rows: Sequence[Row]) -> Claim:
    """Judge whether the bound captures the decay with K."""
    values = means(rows, "K", "monte_carlo")
    slope = exponent(list(values), list(values.values()))
    return Claim(
        "The standard deviation decays as the bound does, K^-½ (slope within 0.05)",
        abs(slope + 0.5) <= SLOPE,
        f"Slope {slope:.3f}; largest standard deviation by K: {listing(values)}",
    )


def lemma_is_exact(rows: Sequence[Row]) -> Claim:
    """Lemma 1 is the standard deviation, not a bound."""
    off = [abs(row["monte_carlo"] / row["lemma"] - 1) for row in rows]
    return Claim(
        "Lemma 1 is exact (the largest of 1,024 Monte-Carlo values within 10 %)",
        max(off) <= EXACT,
        f"Largest departure {100 * max(off):.1f} %",
    )


def best_theta_is_tighter(rows: Sequence[Row]) -> Claim:
    """Judge whether the infimum over Θ is worth taking."""
    gains = [row["theorem"] / row["theorem_best"] for row in rows]
    held = [row for row in rows if row["lemma"] <= row["theorem"]]
    above = sum(row["lemma"] > row["theorem_best"] for row in held)
    return Claim(
        "With the best Θ Theorem 1 is tighter, and holds wherever it does with Θ = I (ours)",
        min(gains) > 1 and above == 0,
        f"Tighter by a factor of {min(gains):.3g} to {max(gains):.3g}; exceeded in {above} of "
        f"{len(held)} cases",
    )


def assumption_free(rows: Sequence[Row]) -> Claim:
    """Our bound holds at every coordinate."""
    worst = max(row["worst_share"] for row in rows)
    closest = max(row["h_scaled_lemma"] / row["h_bound"] for row in rows)
    return Claim(
        "For probes scaled by √α the bound √(h(1−h)/K)/α holds at every coordinate (ours; by "
        "Lemma 1)",
        worst <= 1 + ROUNDING,
        f"Standard deviation over the bound at most {worst:.3f}, over 1/(2√K) {closest:.3f}",
    )


def scaling_helps(rows: Sequence[Row]) -> Claim:
    """Unscaled probes have no such bound."""
    ratio = [row["h_unscaled_lemma"] / row["h_scaled_lemma"] for row in rows]
    beyond = sum(row["h_unscaled_lemma"] > row["h_bound"] for row in rows)
    return Claim(
        "Unscaled probes break the bound 1/(2√K) on the standard deviation of h_j (ours)",
        beyond == len(rows),
        f"In {beyond} of {len(rows)} cases; their largest standard deviation is {min(ratio):.3g} "
        f"to {max(ratio):.3g} times that of scaled ones",
    )


def _steps(rows: Sequence[Row], contestant: Contestant, column: str) -> dict[int, float]:
    return means(rows, "D", column, lambda row: row["method"] == contestant.name)


def grows_with_iterations(rows: Sequence[Row], contestant: Contestant) -> Claim:
    """Without a preconditioner steps grow with T."""
    early, late = (_steps(rows, contestant, f"without_{T}") for T in (50, 100))
    ratios = {D: late[D] / early[D] for D in early}
    return Claim(
        f"{contestant.name}: without a preconditioner the steps grow from iteration 50 to 100 "
        f"(by more than {FLAT:g} times at every D)",
        min(ratios.values()) > FLAT,
        f"Factor by D: {listing(ratios)}",
    )


def grows_with_size(rows: Sequence[Row], contestant: Contestant) -> Claim:
    """Without a preconditioner steps grow with D."""
    late = _steps(rows, contestant, "without_100")
    small, large = min(late), max(late)
    return Claim(
        f"{contestant.name}: without a preconditioner the steps grow with D (by more than "
        f"{FLAT:g} times from the smallest to the largest, iteration 100)",
        late[large] / late[small] > FLAT,
        f"Steps by D: {listing(late)}",
    )


def stays_flat(rows: Sequence[Row], contestant: Contestant) -> Claim:
    """With it they stay small and constant."""
    early, late = (_steps(rows, contestant, f"with_{T}") for T in (50, 100))
    small, large = min(late), max(late)
    growth = max(late[large] / late[small], *(late[D] / early[D] for D in late))
    return Claim(
        f"{contestant.name}: with the preconditioner the steps do not grow with T or D (by less "
        f"than {FLAT:g} times)",
        growth <= FLAT,
        f"Steps by D at iteration 50: {listing(early)}; at 100: {listing(late)}",
    )
