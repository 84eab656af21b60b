"""Whether somebody else's product may become part of a CUDA graph: tried, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cofem.backend._torch.graphs import captured

# A replayed product differs from the one launched by hand by rounding at most, where a
# library chooses another algorithm. This many units of it are no surprise.
ROUNDINGS = 1e4


def reads_no_number(product: Callable[[Any], Any], like: Any) -> bool:
    """Whether ``product`` of rows like these gives the same when it is recorded and replayed.

    It does not if it looks at numbers, brings some from the host or computes outside of
    torch: then a capture fails, or the replay answers for other rows than it was given.
    """
    try:
        rows = torch.randn_like(like)
        product(rows)  # makes tables and plans, which a capture could not
        graph, (found, _) = captured(lambda: (product(rows), rows))
        for _ in range(2):
            rows.copy_(torch.randn_like(like))
            graph.replay()
            wanted = product(rows)
            gap = torch.linalg.vector_norm(found - wanted)
            allowed = ROUNDINGS * torch.finfo(like.dtype).eps * torch.linalg.vector_norm(wanted)
            if not bool(gap <= allowed):
                return False
    except Exception:  # whatever a foreign function raises, it is called as it is from now on
        torch.cuda.synchronize()
        return False
    return True
