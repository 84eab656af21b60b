"""Problems with a dense answer."""

import numpy as np

import cofem

N, D, BETA = 12, 16, 50.0


def problem(seed=0, complex_=False, n=N, d=D):
    random = np.random.default_rng(seed)

    def draw(*shape):
        x = random.standard_normal(shape)
        return (x + 1j * random.standard_normal(shape)) / 2**0.5 if complex_ else x

    phi, y = draw(n, d) / n**0.5, draw(n)
    alpha = 10 ** random.uniform(-1, 2, d)
    covariance = np.linalg.inv(BETA * phi.conj().T @ phi + np.diag(alpha))
    return phi, y, alpha, covariance, BETA * covariance @ phi.conj().T @ y


def exact(complex_=False, method="em", **options):
    phi, y, alpha, covariance, mean = problem(complex_=complex_, **options)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=BETA, method=method)
    return post, covariance, mean


def rectified():
    """Return a posterior by the paper's rule, with exact variances."""
    phi, y, *_ = problem()
    return cofem.fit(phi, y, noise_precision=BETA, nonnegative=True, prior="ard", method="em",
                     max_iter=2, tol=0)  # fmt: skip
