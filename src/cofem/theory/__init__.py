"""What the theory says about the number of probes K and of conjugate-gradient steps U.

Lemma 1, Theorems 1 and 2 and their corollaries are those of Lin, Song, Bilgic and Ba,
"Covariance-Free Sparse Bayesian Learning" (IEEE Transactions on Signal Processing, 2022);
:func:`assumption_free_std_bound` and :func:`condition_bound` are this library's own.
``docs/notes/theory.md`` tells what each one assumes.
"""

from cofem.theory.advice import Recommendation, recommend
from cofem.theory.probes import (
    assumption_free_std_bound,
    probe_std,
    std_bound,
    std_bound_rip,
)
from cofem.theory.scaling import best_theta, departure
from cofem.theory.steps import (
    condition_bound,
    residual_bound,
    residual_bound_rip,
    steps_needed,
)

__all__ = [
    "Recommendation",
    "assumption_free_std_bound",
    "best_theta",
    "condition_bound",
    "departure",
    "probe_std",
    "recommend",
    "residual_bound",
    "residual_bound_rip",
    "std_bound",
    "std_bound_rip",
    "steps_needed",
]
