"""One GPU against its own floor: CG steps of every operator, whole fits, many, large, libraries.

    python benchmarks/gpu.py [SECTION …] [--quick | --tiny] [--output benchmarks/results/gpu.md]

Without a section all of them: the whole page, under one date. Needs torch with CUDA (and Triton,
which comes with it on Linux), but for --tiny, which tries the script anywhere. Prints Markdown.
Times are medians: of device events for steps, of whole calls for fits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import cofem
from cofem import simulate
from gpu_calcium import deconvolution
from gpu_compiled import against_compiled
from gpu_large import hundred_million
from gpu_libraries import libraries
from gpu_many import many_problems
from gpu_memory import no_room
from gpu_mri import reconstruction
from gpu_operators import of_operators
from gpu_prior import prior
from gpu_steps import steps
from gpu_tables import DEVICE, empty_cache, header, pick, seconds, table, waits_of
from gpu_tests import device_tests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute in all")
    parser.add_argument("--output", type=Path, help="write the Markdown there too")
    parser.add_argument("--tiny", action="store_true", help="to try the script: says nothing")
    options = parser.parse_args()
    scale = "tiny" if options.tiny else "quick" if options.quick else "full"
    if not options.tiny and not torch.cuda.is_available():
        raise SystemExit("no CUDA device: this benchmark needs an NVIDIA GPU and torch with CUDA")
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    text = [header(" ".join(["gpu.py", *options.sections, *([f"--{scale}"] * (scale != "full"))]))]
    print(text[0])
    for name in options.sections or SECTIONS:
        began = time.perf_counter()
        try:
            text.append(SECTIONS[name](scale))
        except Exception as error:  # the other sections' time has been paid for
            if options.tiny:
                raise
            text.append(f"## {name} broke\n\n{type(error).__name__}: {error}\n")
        text[-1] += f"\n({time.perf_counter() - began:.0f} s for this section)\n"
        print(text[-1], flush=True)
        if options.output:
            options.output.write_text("\n".join(text), encoding="utf-8")
        cofem.backend.forget_engines()
        empty_cache()


# -- whole fits ----------------------------------------------------------------------


def fits(scale: str) -> str:
    rows = []
    for power, probes in ((15, 20), (15, 4), (18, 20), (18, 4), (20, 20)):
        if power > pick(scale, 20, 15, 15):
            continue
        power = pick(scale, power, power, 8)
        problem = simulate.dct(1 << power, seed=0)
        y = torch.asarray(problem.y, device=DEVICE, dtype=torch.float32)
        method = cofem.CoFEM(n_probes=probes, block=32)

        def fit(problem: Any = problem, y: Any = y, method: Any = method) -> Any:
            return cofem.fit(problem.phi, y, noise_precision=problem.noise_precision,
                             method=method, prior="ard", max_iter=30, tol=0.0)  # fmt: skip

        first, median, post = seconds(fit, 5)
        waits = waits_of(fit) / 30
        if power < 18:
            reference = cofem.fit(problem.phi, problem.y, method=method, max_iter=30, tol=0.0,
                                  noise_precision=problem.noise_precision, prior="ard")  # fmt: skip
            double = f"{simulate.nrmse(reference.mean, problem.z):.3f}"
        else:
            double = "—"
        single = f"{simulate.nrmse(post.mean, problem.z):.3f}"
        steps_taken = sum(post.history["cg_steps"])
        rows.append([f"2^{power}", probes, f"{first:.3f}", f"{median:.4f}", int(steps_taken),
                     f"{waits:.1f}", single, double])  # fmt: skip
    columns = ("D", "probes", "first fit (s)", "median of 5 (s)", "CG steps",
               "waits per iteration", "NRMSE, float32 (%)", "NumPy, float64 (%)")  # fmt: skip
    return (
        "## Whole fits, DCT, 30 iterations and the report with 32 probes, float32\n\n"
        "A third of the samples, 12 % spikes, σ = 0.01. The first fit compiles kernels and "
        "captures graphs. A wait is a call that stops the host until the device is done, as "
        "torch's own check sees it; the looks of the solver come on top, one in three steps.\n\n"
        + table(columns, rows)
    )


# -- exact EM ------------------------------------------------------------------------


def rivals(scale: str) -> str:
    rows = []
    for D in pick(scale, (512, 2048, 8192, 16384), (512, 2048), (64,)):
        problem = simulate.gaussian(D, seed=0)
        phi = torch.asarray(problem.phi.matrix, device=DEVICE)
        y = torch.asarray(problem.y, device=DEVICE)
        row: list[Any] = [D, D // 4]
        for method in ("em", "woodbury", cofem.CoFEM(block=32)):
            single = method not in ("em", "woodbury")
            cast = torch.float32 if single else torch.float64

            def fit(method: Any = method, cast: Any = cast, phi: Any = phi, y: Any = y) -> Any:
                return cofem.fit(phi.to(cast), y.to(cast), noise_precision=1e4, method=method,
                                 max_iter=20, tol=0.0)  # fmt: skip

            _, median, post = seconds(fit, 2)
            row += [f"{median:.3f}", f"{simulate.nrmse(post.mean, problem.z):.3f}"]
        rows.append(row)
    columns = ("D", "N", "EM (s)", "NRMSE (%)", "Woodbury (s)", "NRMSE (%)", "CoFEM (s)",
               "NRMSE (%)")  # fmt: skip
    return (
        "## Dense Gaussian matrices, 20 iterations\n\n"
        "EM and Woodbury factorise in double precision, CoFEM runs in single.\n\n"
        + table(columns, rows)
    )


SECTIONS: dict[str, Callable[[str], str]] = {
    "steps": steps,
    "operators": of_operators,
    "compiled": against_compiled,
    "fits": fits,
    "prior": prior,
    "dense": rivals,
    "many": many_problems,
    "large": hundred_million,
    "calcium": deconvolution,
    "mri": reconstruction,
    "memory": no_room,
    "libraries": libraries,
    "tests": device_tests,
}


if __name__ == "__main__":
    main()
