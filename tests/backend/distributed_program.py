"""What every rank runs in test_distributed.py: fits alone, then fits together."""

import json
import sys

import numpy as np
import torch.distributed as dist

import cofem
from cofem import simulate
from cofem.operators import RowSplit


def compare(ours, alone, tolerance):
    """The largest difference, relative to the largest entry."""
    worst = {}
    for name in ("mean", "variance", "precision"):
        a, b = getattr(ours, name), getattr(alone, name)
        worst[name] = float(np.max(np.abs(a - b) / np.max(np.abs(b))))
    worst["log_evidence"] = abs(ours.log_evidence / alone.log_evidence - 1)
    return {"worst": worst, "good": max(worst.values()) < tolerance}


def main(out):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    told = {}
    options = {"noise_precision": 1e4, "max_iter": 12, "tol": 0}

    made = simulate.dct(512, seed=0)
    for n_probes in (1, 4, 7):
        method = cofem.CoFEM(n_probes=n_probes, report_probes=9, block=5)
        alone = cofem.fit(made.phi, made.y, method=method, **options)
        ours = cofem.fit(made.phi, made.y, method=method, process_group=world, **options)
        told[f"probes {n_probes}"] = compare(ours, alone, 1e-9)
        told[f"products {n_probes}"] = {
            "good": ours.history["products"] == alone.history["products"]
        }
        told[f"same everywhere {n_probes}"] = {
            "good": len(set(gathered(ours.mean.tobytes(), size))) == 1
        }

    tasks = np.stack([made.y, 0.5 * made.y])
    alone = cofem.fit(made.phi, tasks, method="cofem", **options)
    ours = cofem.fit(made.phi, tasks, method="cofem", process_group=world, **options)
    told["joint"] = compare(ours, alone, 1e-9)

    random = np.random.default_rng(0)
    phi = random.standard_normal((90, 160)) / 9
    z = np.zeros(160)
    z[random.choice(160, 8, replace=False)] = 1.0
    y = phi @ z + 0.01 * random.standard_normal(90)
    rows = np.array_split(np.arange(90), size)[rank]
    split = RowSplit(phi[rows], world)
    np.testing.assert_allclose(split.to_dense(), phi, atol=1e-14)
    # A product in another order may change the step at which a system is done: to
    # compare to rounding, solve to rounding.
    tight = cofem.CoFEM(probe_rtol=1e-10, mean_rtol=1e-12, report_rtol=1e-10)
    alone = cofem.fit(phi, y, method=tight, **options)
    ours = cofem.fit(split, y, method=tight, **options)
    told["rows"] = compare(ours, alone, 1e-8)

    complex_phi = phi + 1j * random.standard_normal((90, 160)) / 9
    alone = cofem.fit(complex_phi, complex_phi @ z, method=tight, **options)
    ours = cofem.fit(complex_phi, complex_phi @ z, method=tight, process_group=world, **options)
    told["complex"] = compare(ours, alone, 1e-8)

    for name, wrong in (("em", {"method": "em"}), ("paper", {"method": cofem.CoFEM.paper()})):
        try:
            cofem.fit(phi, y, process_group=world, **options, **wrong)
            told[f"refuses {name}"] = {"good": False}
        except ValueError as error:
            told[f"refuses {name}"] = {"good": "process_group" in str(error)}
    with open(f"{out}.{rank}", "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    dist.destroy_process_group()


def gathered(thing, size):
    everything = [None] * size
    dist.all_gather_object(everything, thing)
    return everything


if __name__ == "__main__":
    main(sys.argv[1])
