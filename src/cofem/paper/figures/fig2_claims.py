"""What the paper says about figure 2, judged from the trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cofem.paper.claims import Claim, Row, exponent, listing, means
from cofem.paper.contestants import AMP, EM, IRLS, OURS, PAPER, SEQUENTIAL, Contestant
from cofem.paper.isolated import DONE, TIME

Rows = Mapping[str, Sequence[Row]]

STRUCTURED = {"b": "DCT", "c": "convolution"}
AGAINST_SEQ = {"e": "DCT", "f": "convolution"}
LARGEST_LOW, SMALLEST_HIGH = 2**15, 2**12
# "An order of magnitude".
MUCH_FASTER = 10
# Smaller peaks are those of the interpreter, not of the method: 4 MiB.
LEAST_BYTES = 2**22
# Below this size, costs that do not depend on D are a large part of the time.
SLOPE_FROM = 2**12
# D log D within this factor, between the smallest and the largest size.
STEADY = 1.5
USELESS = 50.0  # per cent NRMSE: a method that diverged has no time to compare


def check(rows: Rows) -> list[Claim]:
    """Judge every statement about figure 2."""
    claims = [_accuracy(rows)]
    for contestant in (PAPER, OURS):
        claims += [grows(rows, panel, contestant) for panel in STRUCTURED]
    for contestant in (PAPER, OURS):
        claims += [
            passes(rows, panel, contestant, rival) for panel in STRUCTURED
            for rival in (EM, IRLS, AMP)
        ]  # fmt: skip
    for contestant in (PAPER, OURS):
        claims += [beats_seq(rows, panel, contestant) for panel in AGAINST_SEQ]
    claims += [faster_than_em_when_dense(rows, c) for c in (PAPER, OURS)]
    claims += [
        gap_shrinks(rows, panel, contestant, rival)
        for contestant in (PAPER, OURS)
        for panel, rival in (("a", AMP), ("a", IRLS), ("d", SEQUENTIAL))
    ]
    claims += [memory(rows, panel, c) for panel in STRUCTURED for c in (EM, IRLS, OURS)]
    claims += [memory(rows, panel, SEQUENTIAL) for panel in AGAINST_SEQ]
    return claims


def seconds(rows: Sequence[Row], contestant: Contestant) -> dict[int, float]:
    """Return the mean time at every size where the method ended."""
    return means(
        rows, "D", "seconds",
        lambda row: row["method"] == contestant.name and row["status"] == DONE,
    )  # fmt: skip


def stop(rows: Sequence[Row], contestant: Contestant) -> Row | None:
    """Return the smallest run of a method that was stopped, or nothing."""
    stopped = [
        row for row in rows
        if row["method"] == contestant.name and row["status"] not in (DONE, "not run")
    ]  # fmt: skip
    return min(stopped, key=lambda row: int(row["D"])) if stopped else None


def power(D: int) -> str:
    """Write a size as a power of two."""
    return f"2^{int(D).bit_length() - 1}"


def grows(rows: Rows, panel: str, contestant: Contestant) -> Claim:
    """CoFEM's cost grows as D log D."""
    found = {D: s for D, s in seconds(rows[panel], contestant).items() if D >= SLOPE_FROM}
    text = (
        f"The time of {contestant.name}, grows as D log D on the {STRUCTURED[panel]} (time over "
        f"D log D within a factor of {STEADY:g} from the smallest to the largest size, "
        f"D ≥ {power(SLOPE_FROM)})"
    )
    if len(found) < 2:
        return Claim(text, None, "Fewer than two sizes ended")
    unit = {D: s / (D * math.log2(D)) for D, s in found.items()}
    small, large = min(found), max(found)
    ratio = unit[large] / unit[small]
    work = means(
        rows[panel], "D", "products",
        lambda row: row["method"] == contestant.name and row["D"] in found
        and row["status"] == DONE,
    )  # fmt: skip
    return Claim(
        text,
        ratio <= STEADY,
        f"Factor {ratio:.2f} from {power(small)} to {power(large)}; slope of the time "
        f"{exponent(list(found), list(found.values())):.2f}; products with Φ "
        f"{listing({power(D): w for D, w in work.items()}, 4)}",
    )


def passes(rows: Rows, panel: str, contestant: Contestant, rival: Contestant) -> Claim:
    """Judge whether CoFEM is faster than a rival, at the largest size that it ended."""
    mine, its = seconds(rows[panel], contestant), seconds(rows[panel], rival)
    text = f"{contestant.name}, is faster than {rival.name} by D = 2^15 on the {STRUCTURED[panel]}"
    if not mine:
        return Claim(text, None, f"{contestant.name} ended at no size")
    at = max(mine)
    errors = means(
        rows[panel], "D", "nrmse",
        lambda row: row["method"] == rival.name and row["status"] == DONE,
    )  # fmt: skip
    if at in its and not errors[at] <= USELESS:
        why = f"{rival.name} ends at {errors[at]:.3g} % NRMSE: no answer to compare with"
        return Claim(text, None, why)
    if at in its:
        ratio = its[at] / mine[at]
        evidence = f"{mine[at]:.3g} s against {its[at]:.3g} s at {power(at)}, ratio {ratio:.3g}"
        # Slower at a smaller size says nothing about the larger one.
        return Claim(text, None if ratio <= 1 and at < LARGEST_LOW else ratio > 1, evidence)
    halted = stop(rows[panel], rival)
    if halted is None or halted["D"] > at:
        return Claim(text, None, f"{contestant.name} was itself stopped after {power(at)}")
    limit = f"{halted['time_limit']:g} s" if halted["status"] == TIME else _gibibytes(halted)
    slower = halted["status"] != TIME or mine[at] < halted["time_limit"]
    return Claim(
        text,
        True if slower else None,
        f"{mine[at]:.3g} s at {power(at)}; {rival.name} was stopped at {power(halted['D'])} "
        f"({halted['status']}, {limit})",
    )


def _gibibytes(row: Row) -> str:
    return f"{row['memory_limit'] / 2**30:g} GiB"


def beats_seq(rows: Rows, panel: str, contestant: Contestant) -> Claim:
    """CoFEM reaches 2 % sooner than Seq at every size."""
    mine, its = seconds(rows[panel], contestant), seconds(rows[panel], SEQUENTIAL)
    text = (
        f"{contestant.name}, reaches 2 % NRMSE sooner than Seq from D = 2^12 on, on the "
        f"{AGAINST_SEQ[panel]}"
    )
    shared = [D for D in mine if D in its and D >= SMALLEST_HIGH]
    lost = [D for D in its if D not in mine]
    won = [D for D in mine if D not in its]
    evidence = f"Seq's time over CoFEM's: {listing({power(D): its[D] / mine[D] for D in shared})}"
    for name, halted in (
        ("Seq", stop(rows[panel], SEQUENTIAL)),
        (contestant.name, stop(rows[panel], contestant)),
    ):
        if halted is not None:
            evidence += f"; {name} stopped at {power(halted['D'])} ({halted['status']})"
    if not shared and not lost and not won:
        return Claim(text, None, f"No size at which one of them ended; {evidence}")
    return Claim(text, not lost and all(mine[D] < its[D] for D in shared), evidence)


def faster_than_em_when_dense(rows: Rows, contestant: Contestant) -> Claim:
    """On the dense dictionary CoFEM becomes faster than EM by an order of magnitude."""
    mine, its = seconds(rows["a"], contestant), seconds(rows["a"], EM)
    text = f"{contestant.name}, is ten times faster than EM on the Gaussian for large D"
    shared = [D for D in mine if D in its]
    ratios = {power(D): its[D] / mine[D] for D in shared}
    halted = stop(rows["a"], EM)
    evidence = f"EM's time over CoFEM's: {listing(ratios)}"
    if halted is not None and halted["D"] in mine and halted["status"] == TIME:
        least = halted["time_limit"] / mine[halted["D"]]
        evidence += f", and above {least:.3g} at {power(halted['D'])}, where EM was stopped"
        ratios[power(halted["D"])] = least
    if not ratios:
        return Claim(text, None, "No size at which both ended")
    last = list(ratios.values())[-1]
    if last < MUCH_FASTER and max(row["D"] for row in rows["a"]) < LARGEST_LOW:
        return Claim(text, None, f"{evidence}; this run ends before {power(LARGEST_LOW)}")
    return Claim(text, last >= MUCH_FASTER, evidence)


def gap_shrinks(rows: Rows, panel: str, contestant: Contestant, rival: Contestant) -> Claim:
    """On the dense dictionary rivals are ahead, but less so the larger D is."""
    mine, its = seconds(rows[panel], contestant), seconds(rows[panel], rival)
    text = (
        f"{contestant.name}, is ahead of {rival.name} on the Gaussian at the largest size of "
        f"({panel}) that both ended, or less far behind than at the smallest"
    )
    ratios = {D: mine[D] / its[D] for D in mine if D in its}
    if len(ratios) < 2:
        return Claim(text, None, "Fewer than two sizes at which both ended")
    first, last = ratios[min(ratios)], ratios[max(ratios)]
    evidence = listing({power(D): ratio for D, ratio in ratios.items()})
    return Claim(text, last < max(first, 1.0), f"CoFEM's time over {rival.name}'s: {evidence}")


def memory(rows: Rows, panel: str, contestant: Contestant) -> Claim:
    """Covariances need D² memory, CoFEM needs D."""
    found = means(
        rows[panel], "D", "peak_bytes",
        lambda row: row["method"] == contestant.name and row["status"] == DONE
        and row["peak_bytes"] > LEAST_BYTES,
    )  # fmt: skip
    law = 1 if contestant is OURS else 2
    text = (
        f"The memory of {contestant.name} grows as D{'²' if law == 2 else ''} on the "
        f"{(STRUCTURED | AGAINST_SEQ)[panel]} (slope within 0.35 of {law}; runs above 4 MiB)"
    )
    if len(found) < 2:
        return Claim(text, None, "Fewer than two sizes above 4 MiB")
    slope = exponent(list(found), list(found.values()))
    sizes = {power(D): value / 2**20 for D, value in found.items()}
    return Claim(text, abs(slope - law) <= 0.35, f"Slope {slope:.2f}; MiB {listing(sizes)}")


def _accuracy(rows: Rows) -> Claim:
    """Thirty iterations are enough for 2 % (all but AMP on the convolution)."""
    worst: dict[str, float] = {}
    for panel in "abc":
        for row in rows[panel]:
            if row["status"] == DONE and row["method"] != AMP.name:
                worst[row["method"]] = max(worst.get(row["method"], 0.0), row["nrmse"])
    return Claim(
        "30 iterations give an NRMSE below 2 % with EM, IRLS and CoFEM on all dictionaries",
        max(worst.values()) < 2 if worst else None,
        f"Largest NRMSE in %: {listing(worst)}",
    )
