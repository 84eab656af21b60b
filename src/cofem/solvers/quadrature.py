"""log|A| from the coefficients that CG left behind (stochastic Lanczos quadrature).

CG with right-hand side √M∘p is the Lanczos process for M^-½ A M^-½ started at
p. The eigenvalues of its tridiagonal matrix, weighted by the squared first
components of the eigenvectors, are a Gauss rule for pᴴ log(M^-½ A M^-½) p, whose
mean over p is the log-determinant (Ubaru, Chen & Saad 2017). No product is
spent beyond those of the solves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh_tridiagonal

from cofem.solvers.verdicts import Coefficients


def log_quadratic_form(coefficients: Coefficients) -> float:
    """Return the Gauss rule for vᴴ log(B) v, ‖v‖ = 1, B the preconditioned matrix."""
    length = np.asarray(coefficients[0], dtype=np.float64)
    ratio = np.asarray(coefficients[1], dtype=np.float64)
    if not len(length):
        return 0.0
    diagonal = 1 / length
    diagonal[1:] += ratio[:-1] / length[:-1]
    off_diagonal = np.sqrt(ratio[:-1]) / length[:-1]
    eigenvalues, vectors = eigh_tridiagonal(diagonal, off_diagonal)
    # Rounding can push the smallest eigenvalue of a converged process below zero.
    eigenvalues = np.maximum(eigenvalues, np.finfo(float).tiny)
    return float(np.sum(vectors[0] ** 2 * np.log(eigenvalues)))


def log_determinant(
    coefficients: Sequence[Coefficients], log_det_preconditioner: float, dimension: int
) -> tuple[float, float]:
    """Estimate log|A| and its standard error.

    Parameters
    ----------
    coefficients : sequence
        The CG coefficients of systems A x = √M∘p, p random signs, started at zero.
    log_det_preconditioner : float
        log|M|.
    dimension : int
        D, the squared length of the probes.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.solvers import ShiftedGram, rademacher, solve
    >>> from cofem.operators import Dense
    >>> phi = np.random.default_rng(0).normal(size=(20, 30))
    >>> A = ShiftedGram(Dense(phi), scale=1.0, diagonal=np.ones(30))
    >>> p = rademacher(64, 30, np.zeros(30), seed=0)
    >>> found = solve(A, p, rtol=1e-8, keep_coefficients=True)
    >>> value, error = log_determinant(found.coefficients, 0.0, 30)
    >>> exact = np.linalg.slogdet(phi.T @ phi + np.eye(30))[1]
    >>> bool(abs(value - exact) < 3 * error)
    True
    """
    forms = np.array([dimension * log_quadratic_form(c) for c in coefficients])
    error = float(forms.std(ddof=1) / np.sqrt(len(forms))) if len(forms) > 1 else float("inf")
    return float(forms.mean()) + log_det_preconditioner, error
