"""A process of a group dies: the others say what to do, and the same program goes on."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cofem
from cofem.backend.distributed import TorchGroup
from cofem.learning.checkpoint import Checkpoint

torch = pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("killed_program.py")
RANKS = 2
QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COFEM_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run(folder):
    """Start both ranks, as torchrun does, but without its killing those that are left."""
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAM, folder], stderr=subprocess.DEVNULL,
            env={**os.environ, **QUIET, "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    try:
        return [rank.wait(timeout=300) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@pytest.mark.slow
def test_a_rank_is_killed_and_the_next_run_goes_on(tmp_path):
    codes = run(tmp_path)
    assert codes[1] == -9
    assert codes[0] > 0  # ended by itself
    said = (tmp_path / "said.0").read_text()
    assert said.startswith("process_group: another process has ended")
    assert "with checkpoint= they go on" in said
    assert run(tmp_path) == [0, 0]
    for rank in range(RANKS):
        told = json.loads((tmp_path / f"told.{rank}").read_text())
        assert (told["first"], told["last"]) == (11, 25)
        assert told["worst"] < 1e-9


def test_what_torch_says_of_its_connections_is_explained(monkeypatch):
    import torch.distributed as dist

    def closed(*arguments, **options):
        raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:1\nmore")

    group = TorchGroup.__new__(TorchGroup)
    group._group, group.size, group.bytes_reduced = None, 2, 0
    for name, call in (("all_reduce", lambda: group.sum(np.ones(3))),
                       ("all_gather_object", lambda: group.gather(1))):  # fmt: skip
        monkeypatch.setattr(dist, name, closed)
        with pytest.raises(RuntimeError, match=r"^process_group: another .* closed by peer \S+$"):
            call()


class Group:
    """Two processes, of which the other holds something else."""

    def __init__(self, other):
        self.other = other

    def gather(self, thing):
        return [thing, self.other]


def test_processes_with_different_checkpoints_are_refused(tmp_path, monkeypatch):
    agree = Checkpoint.agree
    made = cofem.simulate.dct(64, seed=0)
    phi, y = made.phi, made.y
    options = {"noise_precision": 1e4, "method": "cofem", "prior": "ard", "tol": 0}
    path = tmp_path / "c.npz"
    cofem.fit(phi, y, max_iter=12, checkpoint=path, **options)
    monkeypatch.setattr(Checkpoint, "agree", lambda kept, group: agree(kept, Group((20, None))))
    with pytest.raises(ValueError, match=r"states of iterations 10, 20; give all of them one file"):
        cofem.fit(phi, y, max_iter=14, checkpoint=path, **options)
    monkeypatch.setattr(Checkpoint, "agree", lambda kept, group: agree(kept, Group((10, None))))
    cofem.fit(phi, y, max_iter=14, checkpoint=path, **options)
