"""What each model of docs/models.md is worth, over several problems; and the page's figures.

``python benchmarks/models.py`` prints the tables; ``--figures FOLDER`` draws the figures, from
the page's own examples, and prints nothing.
"""

from __future__ import annotations

import argparse
import doctest
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cofem
from cofem import simulate
from cofem.operators import (
    DCT,
    Autoregressive,
    Convolution,
    Dense,
    FiniteDifference,
    Fourier,
    Identity,
    LinearOperator,
    Smoothing,
    Wavelet,
    stack,
)
from common import Claim, Result, Table, note, print_result, within

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
TASKS = (1, 2, 4, 8)
FAMILIES = ("haar", "db2", "sym8")
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"  # Okabe and Ito's palette


def run(quick: bool) -> Result:
    seeds = range(3 if quick else 10)
    parts: list[Callable[[range], tuple[list[Table], list[Claim]]]] = [
        joint, identical, groups, coupling, complex_data, nonnegative, evidence_choice,
        evidence_error, piecewise,
    ]  # fmt: skip
    tables, claims = [], []
    for part in parts:
        note(f"models: {part.__name__.replace('_', ' ')}")
        more_tables, more_claims = part(seeds)
        tables += more_tables
        claims += more_claims
    return Result("Models", tables, claims, [
        f"{len(seeds)} problems a row unless a table says otherwise; medians over them. The noise "
        "precision is given. docs/models.md explains the models.",
    ])  # fmt: skip


def fitted(phi: Any, y: Any, sigma: float, **options: Any) -> cofem.Posterior:
    """Fit 60 iterations, whatever the mean still does."""
    return cofem.fit(phi, y, **({"noise_precision": sigma**-2, "max_iter": 60, "tol": 0} | options))


def error(post: Any, truth: np.ndarray) -> float:
    return simulate.nrmse(post.mean if isinstance(post, cofem.Posterior) else post, truth)


def median(rows: list[list[float]]) -> list[float]:
    return [float(value) for value in np.median(np.array(rows, dtype=float), axis=0)]


def coverage(post: cofem.Posterior, truth: np.ndarray) -> float:
    low, high = post.interval(0.95)
    return 100 * float(np.mean((low <= truth) & (truth <= high)))


# -- joint tasks -------------------------------------------------------------------------


def common_support(seed: int, shared: bool) -> tuple[list[LinearOperator], list[Any], np.ndarray]:
    """Eight tasks, 40 samples each of 128 coefficients, 16 of them not zero."""
    rng = np.random.default_rng(seed)
    z = np.zeros((8, 128))
    z[:, rng.choice(128, 16, replace=False)] = rng.normal(size=(8, 16))
    phis = [DCT(128, rows=np.sort(rng.choice(128, 40, replace=False))) for _ in range(8)]
    phis = phis[:1] * 8 if shared else phis
    ys = [p.forward(x) + 0.02 * rng.normal(size=40) for p, x in zip(phis, z, strict=True)]
    return phis, ys, z


def joint(seeds: range) -> tuple[list[Table], list[Claim]]:
    rows, claims = [], []
    twice = range(2 * len(seeds))
    for shared in (False, True):
        middle = np.median([joint_errors(seed, shared) for seed in twice], axis=0)
        name = "one for all" if shared else "one for each"
        rows += [[name, L, *middle[i]] for i, L in enumerate(TASKS)]
        first = middle[:, 2]
        falls = np.all(np.diff(first) < 0) and np.all(middle[1:, 0] < middle[1:, 1])
        claims.append(Claim(
            f"joint tasks, operators {name}: a task's error falls with the number of tasks beside "
            "it, and joint fits beat separate ones", bool(falls),
            ", ".join(f"{value:.1f} %" for value in first),
        ))  # fmt: skip
    columns = ["operators", "tasks", "joint, NRMSE %", "separate, NRMSE %", "joint, first task"]
    title = f"Joint tasks with a common support ({len(twice)} problems)"
    return [Table(title, columns, rows)], claims


def joint_errors(seed: int, shared: bool) -> list[tuple[float, float, float]]:
    """Return, for every L, the errors of joint and separate fits, and of the first task's."""
    phis, ys, z = common_support(seed, shared)
    alone = [fitted(p, y, 0.02).mean for p, y in zip(phis, ys, strict=True)]
    together = [fitted(phis[:L], ys[:L], 0.02).mean for L in TASKS]

    def average(means: Any) -> float:
        return float(np.mean([error(mean, x) for mean, x in zip(means, z, strict=False)]))

    return [
        (average(means), average(alone[: len(means)]), error(means[0], z[0]))
        for means in together
    ]


def identical(seeds: range) -> tuple[list[Table], list[Claim]]:
    """Three identical tasks against one, and the products of L different ones."""
    rows, claims = [], []
    for method in ("cofem", "em", "woodbury", "banded", "sequential"):
        off = []
        for seed in seeds[:5]:
            phis, ys, z = common_support(seed, shared=True)
            phi, y = phis[0], ys[0]
            if method == "banded":
                phi = Autoregressive((0.9,), 128)
                y = phi.forward(z[0]) + 0.02 * np.random.default_rng(seed).normal(size=128)
            one = fitted(phi, y, 0.02, method=method, max_iter=20)
            three = fitted(phi, np.stack([y] * 3), 0.02, method=method, max_iter=20)
            off.append(float(np.max(np.abs(three.mean - one.mean)) / np.max(np.abs(one.mean))))
        rows.append([method, max(off)])
        claims.append(Claim(f"three identical tasks are one to 1e-9: {method}", max(off) < 1e-9,
                            f"{max(off):.1e}"))  # fmt: skip
    cost = np.median([products(seed) for seed in seeds[:5]], axis=0)
    table = [[L, *cost[i], cost[i][0] / cost[i][1]] for i, L in enumerate(TASKS)]
    return [
        Table("Three identical tasks against one (5 problems)", ["method", "largest difference"],
              rows),
        Table("Products with Φ and Φᴴ, one operator, 20 iterations (5 problems)",
              ["tasks", "joint", "separate", "ratio"], table),
    ], claims  # fmt: skip


def products(seed: int) -> list[tuple[float, float]]:
    phis, ys, _ = common_support(seed, shared=True)

    def count(y: Any) -> float:
        return fitted(phis[0], y, 0.02, method="cofem", max_iter=20).history["products"][-1]

    alone = [count(y) for y in ys]
    return [(count(np.stack(ys[:L])), sum(alone[:L])) for L in TASKS]


# -- groups and coupling -----------------------------------------------------------------


def blocks(seed: int, N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three of twenty blocks of six."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(20), 6)
    z = np.where(np.isin(labels, rng.choice(20, 3, replace=False)), rng.normal(size=120), 0.0)
    phi = rng.normal(size=(N, 120)) / np.sqrt(N)
    return phi, phi @ z + 0.01 * rng.normal(size=N), z, labels


def success(N: int, seeds: range) -> list[float]:
    """Return the shares of problems recovered to 10 %: without groups, with them."""
    hits = np.zeros(2)
    for seed in seeds:
        phi, y, z, labels = blocks(seed, N)
        hits += [error(fitted(phi, y, 0.01, groups=g), z) < 10 for g in (None, labels)]
    return [float(share) for share in 100 * hits / len(seeds)]


def groups(seeds: range) -> tuple[list[Table], list[Claim]]:
    rows: list[list[float]] = [[N, *success(N, seeds)] for N in (20, 24, 28, 32, 40, 48)]
    need = [next((row[0] for row in rows if row[k] >= 90), np.inf) for k in (1, 2)]
    text = "groups: 90 % recovered from fewer measurements"
    return (
        [Table("Recovered to 10 %, of 120 unknowns in blocks of six, 18 not zero",
               ["measurements", "without groups %", "with groups %"], rows)],
        [Claim(text, need[1] < need[0], f"{need[1]:g} instead of {need[0]:g}")],
    )  # fmt: skip


def patches(seed: int, N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw an image of 20 × 20 with four patches of normal values."""
    rng = np.random.default_rng(seed)
    image = np.zeros((20, 20))
    for _ in range(4):
        h, w = rng.integers(3, 6, size=2)
        i, j = rng.integers(0, 20 - h), rng.integers(0, 20 - w)
        image[i : i + h, j : j + w] = rng.normal(size=(h, w))
    phi = rng.normal(size=(N, 400)) / np.sqrt(N)
    return phi, phi @ image.ravel() + 0.02 * rng.normal(size=N), image.ravel()


def spikes(seed: int, n: int = 400) -> tuple[Autoregressive, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.where(rng.random(n) < 0.05, 1 + rng.random(n), 0.0)
    phi = Autoregressive((0.9,), n)
    return phi, phi.forward(z) + 0.15 * rng.normal(size=n), z


def coupling(seeds: range) -> tuple[list[Table], list[Claim]]:
    few = seeds[:8]
    widths = (0.0, 0.4, 0.6, 1.0)
    rows: list[list[Any]] = []
    for N in (90, 120, 150):
        found = []
        for seed in few:
            phi, y, z = patches(seed, N)
            found.append([error(fitted(phi, y, 0.02, coupling=Smoothing((20, 20), s)), z)
                          for s in widths])  # fmt: skip
        rows.append([f"patches, {N} measurements of 400", *median(found)])
    found = []
    for seed in few:
        kernel, y, z = spikes(seed)
        found.append([error(fitted(kernel, y, 0.15, nonnegative=True,
                                   coupling=Smoothing(400, s)), z) for s in widths])  # fmt: skip
    rows.append(["spike train", *median(found)])
    columns = ["problem (8 of each)", *(f"sigma = {s:g}" for s in widths)]
    return [Table("NRMSE % by width of the coupling; 0 is none", columns, rows)], [
        Claim("coupling helps patches from few measurements", rows[0][3] < rows[0][1],
              f"{rows[0][1]:.0f} to {rows[0][3]:.0f} %"),
        Claim("coupling hurts spike trains", rows[-1][3] > rows[-1][1],
              f"{rows[-1][1]:.0f} to {rows[-1][3]:.0f} %"),
    ]  # fmt: skip


# -- complex, non-negative ---------------------------------------------------------------


def complex_data(seeds: range) -> tuple[list[Table], list[Claim]]:
    off, rows = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        phi = rng.normal(size=(20, 40)) + 1j * rng.normal(size=(20, 40))
        y = phi[:, :4] @ np.ones(4) + rng.normal(size=(20, 2)) @ [0.1, 0.1j]
        post = fitted(phi, y, 0.02**0.5, method="em", max_iter=20)
        stacked = np.block([[phi.real, -phi.imag], [phi.imag, phi.real]])
        real = fitted(stacked, np.r_[y.real, y.imag], 0.1, method="em", max_iter=20,
                      groups=np.tile(np.arange(40), 2))  # fmt: skip
        twin = real.mean[:40] + 1j * real.mean[40:]
        off.append(float(np.max(np.abs(post.mean - twin)) / np.max(np.abs(twin))))
    for share in (0.15, 0.2, 0.25, 0.35):
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            x = np.zeros(128)
            x[rng.choice(128, 12, replace=False)] = 2 * rng.normal(size=12)
            op = Fourier(128, mask=rng.random(128) < share)
            y = op.forward(x) + rng.normal(size=(op.shape[0], 2)) @ [0.02, 0.02j]
            found.append([error(fitted(op, y, 0.02 * 2**0.5, real=real), x)
                          for real in (False, True)])  # fmt: skip
        rows.append([100 * share, *median(found)])
    columns = ["coefficients seen %", "complex, NRMSE %", "real=True, NRMSE %"]
    return [Table("A real z of 128, 12 not zero, by its Fourier coefficients", columns, rows)], [
        Claim("a complex fit is its real-stacked form with tied parts, to 1e-10",
              max(off) < 1e-10, f"{max(off):.1e} on {len(off)} problems"),
    ]  # fmt: skip


def nonnegative(seeds: range) -> tuple[list[Table], list[Claim]]:
    t = np.arange(40)
    kernel = (1 - np.exp(-t / 2)) * np.exp(-t / 8)
    phi = Convolution(kernel / kernel.max(), 300)
    rows = []
    for sigma in (0.05, 0.1, 0.2):
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            z = np.where(rng.random(300) < 0.05, 0.5 + rng.random(300), 0.0)
            y = phi.forward(z) + sigma * rng.normal(size=300)
            post = fitted(phi, y, sigma, nonnegative=True)
            events = post.filtered_mode(0.05)
            hit = np.sum((events > 0) & (z > 0))
            found.append([
                error(fitted(phi, y, sigma), z), error(post, z), error(events, z),
                100 * hit / np.sum(z > 0), 100 * hit / np.sum(events > 0),
            ])  # fmt: skip
        rows.append([sigma, *median(found)])
    columns = ["noise", "free mean, NRMSE %", "non-negative mean", "filtered mode",
               "events found %", "of the mode's, true %"]  # fmt: skip
    better = all(row[3] < row[2] < row[1] for row in rows)
    return [Table("Deconvolution of 300 samples, 5 % events", columns, rows)], [
        Claim("z ≥ 0 lowers the error, the filtered mode lowers it further", better,
              ", ".join(f"{r[1]:.0f} → {r[2]:.0f} → {r[3]:.0f} %" for r in rows)),
    ]  # fmt: skip


# -- evidence ----------------------------------------------------------------------------


def evidence_choice(seeds: range) -> tuple[list[Table], list[Claim]]:
    few = seeds[:8]
    taus = (6.0, 9.0, 12.0, 16.0, 24.0)
    kernels, right = [], 0
    for sigma in (0.05, 0.2):
        picks = [by_kernel(seed, sigma, taus) for seed in few]
        kernels.append([sigma, *(picks.count(tau) for tau in taus)])
        right += picks.count(12.0) if sigma == 0.05 else 0
    wavelets, hits = [], 0
    for true in FAMILIES:
        choices = [by_family(seed, true) for seed in few[:4]]
        wavelets.append([true, *(choices.count(name) for name in FAMILIES)])
        hits += choices.count(true)
    return [
        Table("Kernels with the largest evidence; the true decay is 12 (8 problems a row)",
              ["noise", *(f"τ = {tau:g}" for tau in taus)], kernels),
        Table("Wavelet families with the largest evidence (4 problems a row)",
              ["true family", *FAMILIES], wavelets),
    ], [
        within(right, len(few), "the evidence finds the decay time at noise 0.05"),
        within(hits, 3 * len(few[:4]), "the evidence finds the wavelet family"),
    ]  # fmt: skip


def by_kernel(seed: int, sigma: float, taus: tuple[float, ...]) -> float:
    rng = np.random.default_rng(seed)
    z = np.where(rng.random(300) < 0.05, 1 + rng.random(300), 0.0)
    ops = {tau: Convolution(np.exp(-np.arange(300) / tau), 300) for tau in taus}
    y = ops[12.0].forward(z) + sigma * rng.normal(size=300)
    found = {tau: fitted(op, y, sigma, method="cofem", seed=seed, max_iter=30).log_evidence
             for tau, op in ops.items()}  # fmt: skip
    return max(found, key=lambda tau: found[tau])


def by_family(seed: int, true: str) -> str:
    found = {name: post.log_evidence for name, post in wavelet_fits(seed, true).items()}
    return max(found, key=lambda name: found[name])


def wavelet_fits(seed: int, true: str) -> dict[str, cofem.Posterior]:
    """Fit 128 random projections of a signal with 14 wavelet coefficients, in every family."""
    rng = np.random.default_rng(seed)
    z = np.zeros(256)
    z[rng.choice(256, 14, replace=False)] = 3 * rng.normal(size=14)
    view = Dense(rng.normal(size=(128, 256)) / np.sqrt(128))
    y = view.forward(Wavelet(256, true, level=4).forward(z)) + 0.1 * rng.normal(size=128)
    return {
        name: fitted(view @ Wavelet(256, name, level=4), y, 0.1, method="cofem", max_iter=30)
        for name in FAMILIES
    }


def small_problems(seed: int) -> Iterator[tuple[str, LinearOperator, np.ndarray, float]]:
    for make in (simulate.gaussian, simulate.dct, simulate.convolution):
        problem = make(D=120, seed=seed)
        yield problem.name, problem.phi, problem.y, problem.noise_std
    rng = np.random.default_rng(seed)
    z = np.zeros(128, complex)
    z[rng.choice(128, 8, replace=False)] = rng.normal(size=(8, 2)) @ [1, 1j]
    op = Fourier(128, mask=rng.random(128) < 0.5)
    y = op.forward(z) + rng.normal(size=(op.shape[0], 2)) @ [0.05, 0.05j]
    yield "fourier, complex", op, y, 0.05 * 2**0.5


def evidence_error(seeds: range) -> tuple[list[Table], list[Claim]]:
    """Compare the evidence by quadrature at learned precisions with Cholesky's."""
    scores: dict[str, list[list[float]]] = {}
    for seed in seeds[:10]:
        for name, phi, y, sigma in small_problems(seed):
            post = fitted(phi, y, sigma, method="cofem", seed=seed, max_iter=30)
            exact = cofem.posterior(phi, y, precision=post.precision, noise_precision=sigma**-2,
                                    method="em").log_evidence  # fmt: skip
            off, stated = post.log_evidence - exact, post.log_evidence_error
            scores.setdefault(name, []).append([off / stated, stated])
    rows: list[list[Any]] = []
    for name, pairs in scores.items():
        z, stated = np.array(pairs).T
        rows.append([name, len(z), z.mean(), z.std(), np.abs(z).max(), np.median(stated)])
    every = np.concatenate([np.array(pairs)[:, 0] for pairs in scores.values()])
    columns = ["dictionary", "problems", "mean score", "std of scores", "largest", "stated error"]
    return [Table("Error of the log evidence over its stated error", columns, rows)], [
        # 32 probes: Student's t with 31 degrees of freedom has 0.5 % beyond three.
        Claim("the evidence is within 3 standard errors of Cholesky's, but for 2.5 % at most",
              bool(np.mean(np.abs(every) < 3) >= 0.975),
              f"{np.sum(np.abs(every) < 3)} of {len(every)}; standard deviation of the scores "
              f"{np.std(every):.2f}"),
    ]  # fmt: skip


# -- sparsifier --------------------------------------------------------------------------


def steps(seed: int, n: int = 200) -> tuple[np.ndarray, np.random.Generator]:
    """Draw a piecewise constant signal with six jumps."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.choice(np.arange(5, n - 5), 6, replace=False))
    return np.repeat(2 * rng.normal(size=7), np.diff(np.r_[0, edges, n])), rng


def rectangles(seed: int) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    image = np.zeros((16, 16))
    for _ in range(3):
        h, w = rng.integers(4, 9, size=2)
        i, j = rng.integers(0, 16 - h), rng.integers(0, 16 - w)
        image[i : i + h, j : j + w] += 2 * rng.normal()
    return image.ravel(), rng


def piecewise(seeds: range) -> tuple[list[Table], list[Claim]]:
    jumps = FiniteDifference(200, 0)
    blur = Convolution(np.exp(-np.arange(20) / 5.0) / 5.0, 200)
    noisy, blurred = [], []
    for seed in seeds[:8]:
        x, rng = steps(seed)
        y = x + 0.3 * rng.normal(size=200)
        post = fitted(Identity(200), y, 0.3, sparsifier=jumps)
        noisy.append([error(y, x), error(post, x), coverage(post, x)])
        y = blur.forward(x) + 0.05 * rng.normal(size=200)
        post = fitted(blur, y, 0.05, sparsifier=jumps)
        blurred.append([error(fitted(blur, y, 0.05), x), error(post, x), coverage(post, x)])
    rows: list[list[Any]] = [["denoising", *median(noisy)], ["deblurring", *median(blurred)]]
    gradients = stack([FiniteDifference((16, 16), axis) for axis in (0, 1)])
    counts = []
    for name, sigma in (("denoising", 0.2), ("denoising", 0.5), ("128 projections", 0.05)):
        found = []
        for seed in seeds[:6]:
            x, rng = rectangles(seed)
            phi = np.eye(256) if name == "denoising" else rng.normal(size=(128, 256)) / 128**0.5
            y = phi @ x + sigma * rng.normal(size=len(phi))
            both = [fitted(phi, y, sigma, sparsifier=gradients, max_iter=30,
                           method=cofem.EM(leverage=count)) for count in (True, False)]  # fmt: skip
            found.append([value for post in both for value in (error(post, x), coverage(post, x))])
        counts.append([name, sigma, *median(found)])
    return [
        Table("Piecewise constant signals of 200 samples, six jumps (8 problems)",
              ["problem", "without R, NRMSE %", "with R, NRMSE %", "95 % intervals cover %"], rows),
        Table("Images of 16 × 16, both gradients, 30 iterations: what the M-step counts "
              "(6 problems)", ["problem", "noise", "leverage, NRMSE %", "covers %",
                               "rows, NRMSE %", "covers %"], counts),
    ], [Claim("the sparsifier lowers the error of denoising and deblurring",
              all(row[2] < row[1] for row in rows),
              ", ".join(f"{row[1]:.0f} to {row[2]:.0f} %" for row in rows))]  # fmt: skip


# -- figures -----------------------------------------------------------------------------


def example(title: str) -> dict[str, Any]:
    """Run the examples of one section of the page, and return the names they made."""
    sections = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.startswith(title)]
    names: dict[str, Any] = {}
    for part in doctest.DocTestParser().get_examples(section):
        exec(part.source, names)
    return names


def draw(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    style = {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    for name, (size, grid, picture) in FIGURES.items():
        note(f"drawing models_{name}.png")
        with pyplot.rc_context(style):
            figure, axes = pyplot.subplots(*grid, figsize=size, squeeze=False, layout="constrained")
            picture(axes)
            figure.savefig(folder / f"models_{name}.png", dpi=110)
            pyplot.close(figure)


def _show(ax: Any, **what: Any) -> None:
    ax.set(**what)
    if ax.get_legend_handles_labels()[0]:
        ax.legend()


def _band(ax: Any, post: cofem.Posterior, label: str = "95 % interval") -> None:
    low, high = post.interval(0.95)
    ax.fill_between(np.arange(len(low)), low, high, color=BLUE, alpha=0.25, lw=0, label=label)


def draw_joint(axes: Any) -> None:
    found = np.array([joint_errors(seed, False) for seed in range(10)])
    for k, (name, color) in enumerate((("separate fits", ORANGE), ("joint fit", BLUE))):
        low, middle, high = np.percentile(found[:, :, 1 - k], (25, 50, 75), axis=0)
        axes[0, 0].fill_between(TASKS, low, high, color=color, alpha=0.2, lw=0)
        axes[0, 0].plot(TASKS, middle, "so"[k] + "-", color=color, label=name)
    axes[0, 0].set_xscale("log", base=2)
    axes[0, 0].set_xticks(TASKS, [str(L) for L in TASKS])
    _show(axes[0, 0], xlabel="tasks", ylabel="NRMSE %", ylim=(0, None),
          title="median and quartiles of 10 problems")  # fmt: skip
    names = example("Joint tasks")
    for ax, mean, title in zip(axes[0, 1:], (names["alone"], names["joint"].mean),
                               ("separate fits", "joint fit"), strict=True):  # fmt: skip
        ax.imshow(mean, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto", interpolation="nearest")
        ax.plot(names["support"], np.full(16, -0.8), "v", color="black", ms=4, clip_on=False)
        ax.set_ylim(7.5, -0.5)
        ax.set_title(f"{title} (triangles: support)", pad=14)
        ax.set(xlabel="coordinate", ylabel="task")


def draw_groups(axes: Any) -> None:
    sizes = (16, 20, 24, 28, 32, 36, 40, 44, 48)
    shares = np.array([success(N, range(10)) for N in sizes])
    for k, (name, color) in enumerate((("without groups", ORANGE), ("with groups", BLUE))):
        axes[0, 0].plot(sizes, shares[:, k], "so"[k] + "-", color=color, label=name)
    _show(axes[0, 0], xlabel="measurements (120 unknowns, 18 not zero)", ylabel="recovered %",
          title="10 problems at each size")  # fmt: skip
    names = example("Groups")
    at = np.arange(120)
    axes[0, 1].plot(at, names["z"], "-", color="black", lw=1, label="truth")
    axes[0, 1].plot(at, names["free"].mean, "s", color=ORANGE, ms=3, label="without groups")
    axes[0, 1].plot(at, names["tied"].mean, "o", color=BLUE, ms=3, label="with groups")
    _show(axes[0, 1], xlabel="coordinate", ylabel="z", title="28 measurements")


def draw_coupling(axes: Any) -> None:
    names = example("Coupling")
    pictures = {"truth": names["image"], "without": names["plain"].mean,
                "with coupling": names["smooth"].mean}  # fmt: skip
    for ax, (title, values) in zip(axes[0], pictures.items(), strict=True):
        off = error(values.ravel(), names["image"].ravel())
        ax.imshow(values.reshape(20, 20), cmap="RdBu_r", vmin=-2, vmax=2)
        ax.set(title=title if title == "truth" else f"{title}: NRMSE {off:.0f} %")
        ax.set_axis_off()
    traces = {"truth": names["spikes"], "without": names["alone"].mean,
              "with coupling": names["beside"].mean}  # fmt: skip
    for ax, (title, values) in zip(axes[1], traces.items(), strict=True):
        off = error(values, names["spikes"])
        ax.vlines(np.arange(150), 0, values[:150], color=GREY if title == "truth" else BLUE)
        ax.set(title=title if title == "truth" else f"{title}: NRMSE {off:.0f} %", ylim=(0, 2.4),
               xlabel="sample")  # fmt: skip


def draw_complex(axes: Any) -> None:
    names = example("Complex")
    at = np.arange(128)
    for ax, key, title in zip(axes[:, 0], ("as_complex", "as_real"),
                              ("complex z: real part of the mean", "real=True"),
                              strict=True):  # fmt: skip
        post, active = names[key], names["x"] != 0
        ax.plot(at[active], names["x"][active], "o", mfc="none", color="black", label="truth")
        # Of a complex coordinate, half of the variance is the real part's.
        reach = 1.96 * post.std / (2**0.5 if key == "as_complex" else 1.0)
        ax.errorbar(at, post.mean.real, reach, fmt=".", color=BLUE, lw=1, label="95 % interval")
        _show(ax, title=f"{title}, NRMSE {error(post, names['x']):.0f} %", ylabel="z")
    axes[1, 0].set_xlabel(f"coordinate ({names['n']} Fourier coefficients of 128 seen)")


def draw_nonnegative(axes: Any) -> None:
    names = example("Non-negative")
    top, middle, bottom = axes[:, 0]
    at = np.arange(300)
    top.plot(names["y"], color=GREY, lw=0.8, label="data")
    top.plot(names["phi"].forward(names["events"]), color=BLUE, label="filtered mode, convolved")
    _show(top, ylabel="y")
    active, found = names["z"] > 0, names["events"] > 0
    _band(middle, names["post"])
    middle.vlines(at[found], 0, names["events"][found], color=BLUE, label="filtered mode")
    middle.plot(at[active], names["z"][active], "o", mfc="none", color="black", label="truth")
    _show(middle, ylabel="z")
    probability = np.maximum(names["post"].probability_of_zero, 1e-12)
    bottom.semilogy(probability, ".", color=GREY, ms=4)
    bottom.semilogy(at[active], probability[active], "o", mfc="none", color="black",
                    label="true events")  # fmt: skip
    bottom.axhline(0.05, color=ORANGE, lw=1, label="q = 0.05")
    _show(bottom, ylabel="P(z = 0), from 1e-12 on", xlabel="sample", ylim=(3e-13, 3))


def draw_banded(axes: Any) -> None:
    names = example("Autoregressive")
    seconds = np.arange(300) / 30.0
    top, bottom = axes[:, 0]
    post, phi = names["post"], names["phi"]
    top.plot(seconds, names["y"], color=GREY, lw=0.8, label="data")
    top.plot(seconds, phi.forward(names["z"]), color="black", lw=1, label="true signal")
    fitted_signal = phi.forward(post.filtered_mode())
    top.plot(seconds, fitted_signal, "--", color=BLUE, lw=1.2, label="filtered mode, convolved")
    _show(top, ylabel="y")
    low, high = post.interval(0.95)
    active = names["z"] > 0
    bottom.fill_between(seconds, low, high, color=BLUE, alpha=0.3, lw=0, label="95 % interval")
    bottom.plot(seconds, post.mean, color=BLUE, lw=1, label="mean")
    bottom.plot(seconds[active], names["z"][active], "o", mfc="none", color="black", label="truth")
    _show(bottom, xlabel="seconds", ylabel="z")


def draw_evidence(axes: Any) -> None:
    left, right = axes[0]
    fits = example("Evidence")["fits"]
    left.errorbar(list(fits), [p.log_evidence for p in fits.values()],
                  [3 * p.log_evidence_error for p in fits.values()], fmt="o-", color=BLUE,
                  capsize=3)  # fmt: skip
    left.axvline(12.0, color=GREY, lw=1, ls=":", label="true decay time")
    _show(left, xlabel="decay time τ of the kernel", ylabel="log evidence ± 3 standard errors")
    for k, true in enumerate(FAMILIES):
        posts = wavelet_fits(0, true)
        right.errorbar(np.arange(3) + 0.1 * (k - 1), [posts[f].log_evidence for f in FAMILIES],
                       [3 * posts[f].log_evidence_error for f in FAMILIES], fmt="os^"[k],
                       capsize=3, color=(BLUE, ORANGE, "black")[k], label=f"truth: {true}")
    right.set_xticks(range(3), FAMILIES)
    _show(right, xlabel="wavelets of the dictionary")


def draw_sparsifier(axes: Any) -> None:
    names = example("Sparsity")
    for ax, post, data, title in (
        (axes[0, 0], names["denoised"], names["y"], "denoising"),
        (axes[1, 0], names["sharp"], names["blurred"], "deblurring"),
    ):
        ax.plot(data, ".", color=GREY, ms=4, label="data")
        if title == "deblurring":
            ax.plot(names["without"].mean, color=ORANGE, lw=0.8, label="without the sparsifier")
        ax.plot(names["x"], color="black", lw=1, drawstyle="steps-mid", label="truth")
        _band(ax, post)
        ax.plot(post.mean, color=BLUE, lw=1.2, drawstyle="steps-mid", label="mean")
        _show(ax, title=title, ylabel="x")
    axes[1, 0].set_xlabel("sample")


FIGURES: dict[str, tuple[tuple[float, float], tuple[int, int], Callable[[Any], None]]] = {
    "joint": ((12, 3.4), (1, 3), draw_joint),
    "groups": ((10, 3.4), (1, 2), draw_groups),
    "coupling": ((10, 5.4), (2, 3), draw_coupling),
    "complex": ((9, 5), (2, 1), draw_complex),
    "nonnegative": ((9, 6.4), (3, 1), draw_nonnegative),
    "banded": ((9, 4.6), (2, 1), draw_banded),
    "evidence": ((10, 3.6), (1, 2), draw_evidence),
    "sparsifier": ((9, 5.4), (2, 1), draw_sparsifier),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the models, or draw them.")
    parser.add_argument("--quick", action="store_true", help="three problems instead of ten")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the page's figures")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cofem.ConvergenceWarning)
    if asked.figures is not None:
        draw(asked.figures)
        return 0
    began = time.perf_counter()
    result = run(asked.quick)
    print_result(result, time.perf_counter() - began)
    return int(any(claim.reached is False for claim in result.claims))


if __name__ == "__main__":
    sys.exit(main())
