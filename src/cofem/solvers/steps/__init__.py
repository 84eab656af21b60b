"""Steps of conjugate gradients, one module for each kind of array."""
