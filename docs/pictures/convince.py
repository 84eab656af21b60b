"""The picture of the README: one problem, as the lasso and as cofem see it.

    python docs/pictures/convince.py                          # draws docs/images/convince.png
    python docs/pictures/convince.py --problems 20            # prints a table of 20 problems

300 measurements of 1,000 unknowns, 50 of which are not zero; noise of standard deviation 0.05.
The lasso's λ is chosen by ten-fold cross-validation; cofem is told nothing. Needs scikit-learn.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.linear_model import LassoCV

import cofem

mpl.use("agg")
from matplotlib import pyplot as plt

OUT = Path(__file__).parents[1] / "images" / "convince.png"
N, D, NONZEROS, NOISE = 300, 1000, 50, 0.05
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


def problem(seed):
    """Return Φ (N, D), y (N,) and the true z (D,)."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(N, D)) / np.sqrt(N)
    z = np.zeros(D)
    z[rng.choice(D, NONZEROS, replace=False)] = rng.normal(size=NONZEROS)
    return phi, phi @ z + NOISE * rng.normal(size=N), z


def solve(seed):
    """Return the truth, the lasso's weights and cofem's posterior."""
    phi, y, z = problem(seed)
    return z, LassoCV(cv=10, fit_intercept=False).fit(phi, y).coef_, cofem.fit(phi, y)


def counts(named, z):
    """Return how many of the coordinates that a method names are non-zero, and how many not."""
    return int(np.sum(named & (z != 0))), int(np.sum(named & (z == 0)))


def error(estimate, z):
    """Return the relative error in per cent."""
    return 100 * np.linalg.norm(estimate - z) / np.linalg.norm(z)


def draw(z, lasso, post):
    """Draw truth, lasso and posterior below each other, readable on a phone."""
    plt.rcParams.update({"font.size": 13, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(3, figsize=(8, 8.4), sharex=True, sharey=True, layout="constrained")
    at, true = np.arange(D), z != 0
    stems(axes[0], at[true], z[true], BLUE)
    axes[0].set_title(f"The truth: {true.sum()} of {D:,} coefficients are not zero", loc="left")

    kept = lasso != 0
    found, false = counts(kept, z)
    stems(axes[1], at[kept & true], lasso[kept & true], BLUE)
    stems(axes[1], at[kept & ~true], lasso[kept & ~true], ORANGE)
    axes[1].set_title(
        f"Lasso, λ by cross-validation: {found} found, {false} false, "
        f"error {error(lasso, z):.0f} %",
        loc="left",
    )

    named = post.support()
    found, false = counts(named, z)
    low, high = post.interval(0.95)
    for chosen, colour in ((named & true, BLUE), (named & ~true, ORANGE)):
        bars = np.abs(np.stack([low, high]) - post.mean)[:, chosen]
        stems(axes[2], at[chosen], post.mean[chosen], colour)
        axes[2].errorbar(at[chosen], post.mean[chosen], bars, fmt="none", ecolor=colour, capsize=3)
    unsure = (post.probability > 0.1) & ~named
    axes[2].plot(at[unsure], post.mean[unsure], ".", color=GREY, markersize=5)
    axes[2].set_title(
        f"cofem, nothing to choose: {found} found, {false} false, "
        f"error {error(post.mean, z):.0f} %",
        loc="left",
    )
    axes[2].set_xlabel("coefficient")
    handles = [
        plt.Line2D([], [], color=BLUE, marker="o", label="truly not zero"),
        plt.Line2D([], [], color=ORANGE, marker="o", label="false: truly zero"),
        plt.Line2D([], [], color=GREY, marker=".", linestyle="none", label="possible (P > 0.1)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def stems(ax, at, values, colour):
    """Draw values as dots on stalks."""
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.vlines(at, 0, values, color=colour, linewidth=1.3)
    ax.plot(at, values, "o", color=colour, markersize=4.5)


def table(n_problems):
    """Print what both find on several problems."""
    rows = []
    for seed in range(n_problems):
        z, lasso, post = solve(seed)
        named = post.support()
        low, high = post.interval(0.95)
        held = np.mean(((low <= z) & (z <= high))[named])
        rows.append([*counts(lasso != 0, z), error(lasso, z), *counts(named, z),
                     error(post.mean, z), 100 * held])  # fmt: skip
    middle = np.median(rows, axis=0)
    print(f"medians of {n_problems} problems, {N} × {D}, {NONZEROS} non-zeros, σ = {NOISE}")
    print("lasso: {:.0f} found, {:.0f} false, error {:.1f} %".format(*middle[:3]))
    print("cofem: {:.0f} found, {:.0f} false, error {:.1f} %".format(*middle[3:6]))
    total = np.sum(rows, axis=0)
    false = 100 * total[4] / (total[3] + total[4])
    print(f"cofem, all together: {false:.1f} % of the support false;", end=" ")
    print(f"intervals of the support hold the truth in {np.mean(rows, axis=0)[6]:.1f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=0, help="print a table of this many")
    parser.add_argument("--seed", type=int, default=0, help="the problem that is drawn")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.problems:
        table(given.problems)
    else:
        draw(*solve(given.seed)).savefig(given.out, dpi=110)
        print(f"wrote {given.out}")
