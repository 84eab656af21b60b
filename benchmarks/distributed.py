"""Several processes on one problem: time and traffic against the number of ranks.

``torchrun`` starts this very file on every rank.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import Claim, Result, Table, note

RANKS = (1, 2, 4)


def run(quick: bool) -> Result:
    exponent, iterations = (14, 4) if quick else (18, 8)
    told = {ranks: _together(ranks, exponent, iterations) for ranks in RANKS}
    alone = told[1]
    rows = []
    for ranks, facts in told.items():
        rows.append([
            ranks, facts["seconds"], alone["seconds"] / facts["seconds"],
            facts["systems"] / ranks, facts["bytes_reduced"] / iterations / 2**20,
            facts["bytes_reduced"] / iterations / 2**exponent / 8,
            facts["difference"],
        ])  # fmt: skip
    worst = max(facts["difference"] for facts in told.values())
    vectors = max(row[5] for row in rows)
    return Result(
        "One problem on several processes",
        [
            Table(
                f"DCT, D = 2^{exponent}, a third of the samples, 19 probes and a mean, "
                f"{iterations} iterations, gloo on one machine",
                [
                    "ranks",
                    "seconds",
                    "speed-up",
                    "systems a rank",
                    "MiB reduced / iteration",
                    "vectors of D reduced / iteration",
                    "difference of the mean",
                ],
                rows,
            )
        ],
        [
            Claim(
                "all ranks together give the single process's mean",
                worst < 1e-6,
                f"largest relative difference {worst:.1e}",
            ),
            Claim(
                "one reduction of a few D-vectors an iteration",
                vectors < 4,
                f"{vectors:.2f} vectors",
            ),
        ],
        [
            f"{os.cpu_count()} cores: more ranks than cores cannot be faster here. "
            "The reporting step is left out. A ring all-reduce moves twice the bytes reduced."
        ],
    )


def _together(ranks: int, exponent: int, iterations: int) -> dict[str, float]:
    note(f"distributed: {ranks} ranks, D = 2^{exponent}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "told.json")
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COFEM_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}", __file__,
             str(out), str(exponent), str(iterations)],
            check=True, timeout=900, env={**os.environ, **single}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        facts: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return facts


def _rank(out: str, exponent: int, iterations: int) -> None:
    import torch.distributed as dist

    import cofem
    from cofem import simulate
    from cofem.backend import distributed as shared

    dist.init_process_group("gloo")
    groups = []
    original = shared.TorchGroup.__init__

    def remember(self, process_group):  # type: ignore[no-untyped-def]
        original(self, process_group)
        groups.append(self)

    shared.TorchGroup.__init__ = remember  # type: ignore[method-assign]
    problem = simulate.dct(2**exponent, seed=0)
    method = cofem.CoFEM(n_probes=19, report_probes=0, block=19)
    options = {"noise_precision": problem.noise_precision, "method": method, "tol": 0}
    cofem.fit(problem.phi, problem.y, max_iter=1, **options)  # compile
    dist.barrier()
    began = time.perf_counter()
    post = cofem.fit(
        problem.phi, problem.y, max_iter=iterations, process_group=dist.group.WORLD, **options
    )
    seconds = time.perf_counter() - began
    if dist.get_rank() == 0:
        alone = cofem.fit(problem.phi, problem.y, max_iter=iterations, **options)
        gap = np.linalg.norm(post.mean - alone.mean) / np.linalg.norm(alone.mean)
        facts = {
            "seconds": seconds,
            "systems": 20,
            "bytes_reduced": groups[-1].bytes_reduced,
            "difference": float(gap),
        }
        Path(out).write_text(json.dumps(facts), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
