"""CG steps on torch tensors: the state of a batch, and the kernels that move it."""
