"""A process group of NCCL with one rank, the most that one GPU takes.

Run as a script by torchrun, this file is the program of the rank.
"""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cofem
from cofem import simulate

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_a_group_of_one_gives_the_single_answer(tmp_path):
    out = tmp_path / "told"
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--local-addr=127.0.0.1", "--nproc-per-node=1", __file__, str(out),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(Path(out).read_text())
    assert set(told) == {"1", "4", "7", "rows"}
    for case, worst in told.items():
        assert worst < 1e-9, case


def apart(ours, alone):
    """The largest relative difference of mean, variance and evidence."""
    found = [abs(ours.log_evidence / alone.log_evidence - 1)]
    for name in ("mean", "variance", "precision"):
        a, b = getattr(ours, name), getattr(alone, name)
        found.append(float((a - b).abs().max() / b.abs().max()))
    return max(found)


def main(out):
    import torch.distributed as dist

    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60), device_id=device)
    world, told = dist.group.WORLD, {}
    options = {"noise_precision": 1e4, "max_iter": 12, "tol": 0}
    made = simulate.dct(512, seed=0)
    y = torch.asarray(made.y, device=device)
    for n_probes in (1, 4, 7):
        method = cofem.CoFEM(n_probes=n_probes, report_probes=9, block=5)
        alone = cofem.fit(made.phi, y, method=method, **options)
        ours = cofem.fit(made.phi, y, method=method, process_group=world, **options)
        told[n_probes] = apart(ours, alone)
    dense = simulate.gaussian(256, seed=0)
    phi, y = (torch.asarray(v, device=device) for v in (dense.phi.matrix, dense.y))
    tight = cofem.CoFEM(probe_rtol=1e-10, mean_rtol=1e-12, report_rtol=1e-10)
    alone = cofem.fit(phi, y, method=tight, **options)
    split = cofem.operators.RowSplit(phi, world)
    told["rows"] = apart(cofem.fit(split, y, method=tight, **options), alone)
    Path(out).write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
