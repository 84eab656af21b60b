"""The figures of docs/notes/models.md, drawn from the page's own examples and the measurements."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cofem
from common import note
from models_common import PROBLEMS, error
from models_evidence import FAMILIES, wavelet_fits
from models_joint import TASKS, joint_study
from models_structure import success

PAGE = Path(__file__).resolve().parents[1] / "docs" / "notes" / "models.md"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"  # Okabe and Ito's palette

# Size in inches, rows and columns of axes, and what draws on them.
Figure = tuple[tuple[float, float], tuple[int, int], Callable[[Any], None]]


def example(title: str) -> dict[str, Any]:
    """Run the examples of one section of the page, and return the names they made."""
    sections = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.startswith(title)]
    names: dict[str, Any] = {}
    for part in doctest.DocTestParser().get_examples(section):
        exec(part.source, names)
    return names


def draw(folder: Path, figures: dict[str, Figure]) -> None:
    """Write every figure as models_NAME.png."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    style = {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    for name, (size, grid, picture) in figures.items():
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
    found = joint_study(range(PROBLEMS), shared=False)
    for k, (name, color) in enumerate((("separate fits", ORANGE), ("joint fit", BLUE))):
        low, middle, high = np.percentile(found[:, :, 1 - k], (25, 50, 75), axis=0)
        axes[0, 0].fill_between(TASKS, low, high, color=color, alpha=0.2, lw=0)
        axes[0, 0].plot(TASKS, middle, "so"[k] + "-", color=color, label=name)
    axes[0, 0].set_xscale("log", base=2)
    axes[0, 0].set_xticks(TASKS, [str(L) for L in TASKS])
    _show(axes[0, 0], xlabel="tasks", ylabel="NRMSE %", ylim=(0, None),
          title=f"median and quartiles of {len(found)} problems")  # fmt: skip
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
    shares = np.array([success(N, range(PROBLEMS)) for N in sizes])
    for k, (name, color) in enumerate((("without groups", ORANGE), ("with groups", BLUE))):
        axes[0, 0].plot(sizes, shares[:, k], "so"[k] + "-", color=color, label=name)
    _show(axes[0, 0], xlabel="measurements (120 unknowns, 18 not zero)", ylabel="recovered %",
          title=f"{PROBLEMS} problems at each size")  # fmt: skip
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
        right.errorbar(
            np.arange(3) + 0.1 * (k - 1),
            [posts[f].log_evidence for f in FAMILIES],
            [3 * posts[f].log_evidence_error for f in FAMILIES],
            fmt="os^"[k],
            capsize=3,
            color=(BLUE, ORANGE, "black")[k],
            label=f"truth: {true}",
        )
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
