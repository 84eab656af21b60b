"""Sums of long vectors on CUDA: one launch each, and nothing waits."""

from __future__ import annotations

from typing import Any

import torch

from cofem.solvers.steps.cuda import kernels_field, kernels_probes

BLOCK, WARPS = 1024, 8


def field_factor(alpha: Any, theta: Any, top: float, trace: Any) -> Any:
    """Return c in [0, top] with Σ h = trace, a tensor without axes on its device."""
    device, n = alpha.device, alpha.shape[0]
    trace = torch.as_tensor(trace, device=device).to(torch.float64).reshape(1)
    limits = torch.cat([trace, torch.full_like(trace, top)])
    answer = torch.empty((), dtype=torch.float64, device=device)
    slots = _programs(n, device)
    sums = torch.empty((2, 2, slots), dtype=torch.float64, device=device)
    arrived = torch.zeros(1, dtype=torch.int32, device=device)
    kernels_field.field_factor[(slots,)](
        alpha.contiguous(), theta.contiguous(), limits, sums, arrived, answer, n,
        SLOTS=slots, BLOCK=BLOCK, num_warps=WARPS,
        launch_cooperative_grid=True,  # programs wait for each other: all must run at once
    )  # fmt: skip
    return answer.to(alpha.dtype)


def _programs(n: int, device: Any) -> int:
    """Return a power of two: not more than processors, nor than pieces of work."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    pieces = -(-n // BLOCK)
    return int(min(1 << (processors.bit_length() - 1), 1 << (pieces - 1).bit_length()))


def probe_sums(p: Any, x: Any, scaling: Any) -> tuple[Any, Any]:
    """Return Σ e and Σ e² over the rows of e = Re(p̄∘x)∘scaling."""
    probes, n = x.shape
    lanes = 2 if x.is_complex() else 1
    rows = [(torch.view_as_real(v) if lanes == 2 else v).contiguous() for v in (p, x)]
    # In double precision: the variance is a difference of the two.
    first, second = (torch.empty_like(scaling, dtype=torch.float64) for _ in range(2))
    block = 128
    kernels_probes.probe_sums[(-(-n // block),)](
        *rows, scaling, first, second, n, probes,
        LANES=lanes, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return first, second
