"""Sums over a long vector that come to the host in one launch and one transfer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cofem.backend._torch import kernels

BLOCK, SLOTS = 1024, 128


def field_sums(alpha: Any, theta: Any, c: float) -> tuple[float, float]:
    """Return Σ h and Σ h(1 − h) for h = α/(α + cθ) on CUDA."""
    n = alpha.shape[0]
    factor = torch.full((1,), c, dtype=torch.float64, device=alpha.device)
    sums = torch.empty((2, SLOTS), dtype=torch.float64, device=alpha.device)
    kernels.field_sums[(SLOTS,)](
        alpha.contiguous(), theta.contiguous(), factor, sums, n, -(-n // BLOCK),
        SLOTS=SLOTS, BLOCK=BLOCK,
    )  # fmt: skip
    total, spread = np.sum(sums.cpu().numpy(), axis=1)
    return float(total), float(spread)
