"""Several processes on one problem, started by torchrun on the loopback interface."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cofem

torch = pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("distributed_program.py")


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_together_give_the_single_answer(tmp_path, ranks):
    out = tmp_path / "told"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
        f"--nproc-per-node={ranks}", str(PROGRAM), str(out),
    ]  # fmt: skip
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COFEM_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(ranks)]
    assert all(entry["good"] for of_rank in told for entry in of_rank.values()), told[0]
    assert len(told[0]) == 14


def test_process_groups_that_are_none_are_named():
    phi, y = np.eye(3), np.ones(3)
    with pytest.raises(ValueError, match="is not initialised"):
        cofem.fit(phi, y, noise_precision=1.0, method="cofem", process_group="world")
