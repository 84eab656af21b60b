"""Problems with a constant, and their dense posterior."""

import numpy as np

N, D, BETA = 14, 9, 40.0


def problem(seed, complex_=False, n=N, d=D, offset=3.0):
    """Φ whose columns have means, y, α."""
    random = np.random.default_rng(seed)

    def draw(*shape):
        x = random.standard_normal(shape)
        return (x + 1j * random.standard_normal(shape)) / 2**0.5 if complex_ else x

    phi = draw(n, d) + draw(d)
    return phi, draw(n) + offset, 10 ** random.uniform(-1, 2, d)


def sparse_problem(seed, n=60, d=100, offset=5.0, sigma=0.1):
    random = np.random.default_rng(seed)
    phi = random.standard_normal((n, d)) + 2 * random.standard_normal(d)
    z = np.zeros(d)
    z[random.choice(d, 4, replace=False)] = [1.0, -2.0, 1.5, 3.0]
    return phi, phi @ z + offset + sigma * random.standard_normal(n), offset, z
