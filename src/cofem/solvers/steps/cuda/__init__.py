"""CG steps on CUDA: fused kernels (Triton), recorded as graphs. Needs torch."""
