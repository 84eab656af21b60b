"""What ``fit_many`` returns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import fitting
from cofem.many.layout import CONVERGED, FAILED
from cofem.many.stores import Store


@dataclass(frozen=True, eq=False)
class ManyPosteriors:
    """What is left of many fits: one row for every problem.

    Attributes
    ----------
    mean, variance : array (P, D)
        In memory, memory-mapped or a zarr array, as the store is. NaN where a fit failed.
    precision : array (P, M)
        α of every problem (M = D unless there is a sparsifier).
    noise_precision, log_evidence : array (P,)
    converged : array of bool (P,)
    message : list of str
        How every fit ended.
    failed : list of (int, str)
        The problems that have no result, and why.

    Examples
    --------
    >>> import numpy as np, cofem
    >>> many = cofem.fit_many(np.eye(3), np.eye(3), noise_precision=1e4)
    >>> len(many), many.mean.shape, many.failed
    (3, (3, 3), [])
    """

    mean: Any
    variance: Any
    precision: Any
    noise_precision: np.ndarray
    log_evidence: np.ndarray
    converged: np.ndarray
    message: list[str]
    failed: list[tuple[int, str]]

    @property
    def std(self) -> np.ndarray:
        """The square root of the variance, read into memory."""
        return np.asarray(np.sqrt(self.variance[:]))

    def __len__(self) -> int:
        return len(self.message)

    def __repr__(self) -> str:
        problems, unknowns = self.mean.shape
        return (
            f"ManyPosteriors({problems} problems × {unknowns} unknowns; "
            f"{int(np.sum(self.converged))} converged, {len(self.failed)} failed)"
        )


def result_of(target: Store, problems: int, tol: Any) -> ManyPosteriors:
    """Gather what the store holds, and warn once of what went wrong."""
    state, messages = target.state(problems), target.messages()
    failed = [(int(i), messages[i]) for i in np.flatnonzero(state == FAILED)]
    result = ManyPosteriors(
        mean=target.readable("mean"),
        variance=target.readable("variance"),
        precision=target.readable("precision"),
        noise_precision=np.array(target.arrays["noise_precision"][:]),
        log_evidence=np.array(target.arrays["log_evidence"][:]),
        converged=state == CONVERGED,
        message=messages,
        failed=failed,
    )
    unsettled = problems - len(failed) - int(np.sum(result.converged))
    if failed:
        index, error = failed[0]
        warnings.warn(
            f"{len(failed)} of {problems} problems failed, the first of them {index} "
            f"({error}); see .failed",
            UserWarning,
            stacklevel=3,
        )
    if unsettled and tol != 0:
        warnings.warn(
            f"{unsettled} of {problems} fits did not converge; see .converged and .message",
            fitting.ConvergenceWarning,
            stacklevel=3,
        )
    return result
