"""The mean field's sums on CUDA: long vectors in, one number out, and few waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cofem.backend._torch import kernels_field as kernels

BLOCK, SLOTS = 1024, 128
ONE_PROGRAM = 1 << 17
"""Up to this length one program finds the root sooner than the host could ask for sums."""


def field_sums(alpha: Any, theta: Any, c: float) -> tuple[float, float]:
    """Return Σ h and Σ h(1 − h) for h = α/(α + cθ): one launch, one transfer."""
    factor = torch.full((1,), c, dtype=torch.float64, device=alpha.device)
    sums = torch.empty((2, SLOTS), dtype=torch.float64, device=alpha.device)
    kernels.field_sums[(SLOTS,)](
        alpha.contiguous(), theta.contiguous(), factor, sums, alpha.shape[0],
        SLOTS=SLOTS, BLOCK=BLOCK,
    )  # fmt: skip
    total, spread = np.sum(sums.cpu().numpy(), axis=1)
    return float(total), float(spread)


def field_factor(alpha: Any, theta: Any, top: float, trace: Any) -> Any:
    """Return c in [0, top] with Σ h = trace, a tensor without axes: nothing waits for it."""
    trace = torch.as_tensor(trace, device=alpha.device).to(torch.float64).reshape(1)
    limits = torch.cat([trace, torch.full_like(trace, top)])
    answer = torch.empty((), dtype=torch.float64, device=alpha.device)
    kernels.field_factor[(1,)](
        alpha.contiguous(), theta.contiguous(), limits, answer, alpha.shape[0],
        BLOCK=4096, num_warps=16,
    )  # fmt: skip
    return answer.to(alpha.dtype)
