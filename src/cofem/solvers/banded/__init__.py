"""Systems with banded matrices: autoregressive kernels of order one and two, in linear time."""
