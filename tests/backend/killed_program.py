"""What every rank runs in test_distributed_killed.py: a fit in which one rank may die."""

import json
import os
import signal
import sys
from pathlib import Path

import torch.distributed as dist

import cofem
from cofem import simulate

AT = 15  # between two checkpoints


def main(folder):
    dist.init_process_group("gloo")
    rank, seen = dist.get_rank(), []
    token = folder / "killed"

    def watch(state):
        seen.append(state.iteration)
        if rank == 1 and state.iteration == AT and not token.exists():
            token.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    made = simulate.dct(256, seed=0)
    options = {"noise_precision": 1e4, "prior": "ard", "max_iter": 25, "tol": 0}
    method = cofem.CoFEM(n_probes=4, report_probes=4)
    world = dist.group.WORLD
    try:
        ours = cofem.fit(
            made.phi, made.y, method=method, process_group=world, callback=watch,
            checkpoint=folder / "c.npz", **options,
        )  # fmt: skip
    except RuntimeError as error:
        (folder / f"said.{rank}").write_text(str(error))
        raise
    alone = cofem.fit(made.phi, made.y, method=method, **options)
    worst = abs(ours.mean - alone.mean).max() / abs(alone.mean).max()
    told = {"first": seen[0], "last": seen[-1], "worst": float(worst)}
    (folder / f"told.{rank}").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", cofem.ConvergenceWarning)
    main(Path(sys.argv[1]))
