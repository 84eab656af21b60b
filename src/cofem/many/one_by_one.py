"""Rows of data fitted one after the other; an error belongs to its row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.fitting.outlying import FAR_AWAY
from cofem.many.layout import Outcome
from cofem.many.marginals import kept_of
from cofem.operators import LinearOperator


def fit_rows(phi: LinearOperator, Y: Any, options: dict[str, Any]) -> list[Outcome]:
    """Fit every row of Y; an error belongs to its row.

    ``options["noise_precision"]`` is None, a number, or one for every row. A method that can
    share products between problems belongs here.
    """
    noise = options["noise_precision"]
    outcomes = []
    for i in range(Y.shape[0]):
        y = Y[i, ...]
        one = noise[i] if isinstance(noise, np.ndarray) else noise
        try:
            with warnings.catch_warnings():
                # The parent tells how many did not converge, and have rows that are far away.
                warnings.simplefilter("ignore", fitting.ConvergenceWarning)
                warnings.filterwarnings("ignore", f".*{FAR_AWAY}")
                post = fitting.fit(phi, y, **{**options, "noise_precision": one})
            outcomes.append(
                Outcome(
                    mean=backend.to_numpy(post.mean),
                    variance=backend.to_numpy(post.variance),
                    precision=backend.to_numpy(post.precision),
                    noise_precision=float(post.noise_precision),
                    log_evidence=float(post.log_evidence),
                    intercept=np.nan if post.intercept is None else post.intercept,
                    intercept_std=np.nan if post.intercept is None else post.intercept_std,
                    converged=bool(post.converged),
                    message=post.message,
                    kept=_on_host(kept_of(post)),
                )
            )
        except Exception as error:
            outcomes.append(Outcome(error=f"{type(error).__name__}: {error}"))
    return outcomes


def _on_host(kept: dict[str, Any]) -> dict[str, Any]:
    return {k: backend.to_numpy(x) if backend.is_array(x) else x for k, x in kept.items()}
