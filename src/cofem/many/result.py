"""What ``fit_many`` returns."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import fitting
from cofem.many.layout import CONVERGED, FAILED
from cofem.many.stores import Store


@dataclass(frozen=True, eq=False)
class OneOfMany:
    """What is left of one fit; the names are those of :class:`~cofem.Posterior`.

    For draws and predictions make the posterior again, which learns nothing:
    ``cofem.posterior(phi, Y[i], precision=one.precision, noise_precision=one.noise_precision)``.

    Attributes
    ----------
    mean, variance : array (D,)
        NaN if the fit failed.
    precision : array (M,)
    noise_precision, log_evidence : float
    intercept, intercept_std : float or None
    converged, failed : bool
    message : str
        How the fit ended, or why it failed.
    """

    mean: np.ndarray
    variance: np.ndarray
    precision: np.ndarray
    noise_precision: float
    log_evidence: float
    converged: bool
    failed: bool
    message: str
    intercept: Any = None
    intercept_std: Any = None

    @property
    def std(self) -> np.ndarray:
        """The square root of the variance."""
        return np.asarray(np.sqrt(self.variance))

    def __repr__(self) -> str:
        state = "failed" if self.failed else "converged" if self.converged else "not converged"
        return f"OneOfMany({len(self.mean)} unknowns; {state}: {self.message})"


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
    intercept, intercept_std : array (P,) or None
        The constants, where the fits had them.
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
    >>> many[2].mean.round(2), many[-1].converged
    (array([0., 0., 1.]), True)
    >>> [one.failed for one in many]
    [False, False, False]
    """

    mean: Any
    variance: Any
    precision: Any
    noise_precision: np.ndarray
    log_evidence: np.ndarray
    converged: np.ndarray
    message: list[str]
    failed: list[tuple[int, str]]
    intercept: np.ndarray | None = None
    intercept_std: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """The square root of the variance, read into memory."""
        return np.asarray(np.sqrt(self.variance[:]))

    def __len__(self) -> int:
        return len(self.message)

    def __getitem__(self, index: Any) -> OneOfMany:
        """Return what is left of one fit; a slice of an array takes several."""
        try:
            i = operator.index(index)
        except TypeError:
            raise TypeError(
                f"the index of a problem is a whole number, got {index!r}; for several take "
                "rows of an array, as many.mean[2:5]"
            ) from None
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {len(self)} problems, got the index {index}")
        i %= len(self)
        return OneOfMany(
            mean=np.asarray(self.mean[i]),
            variance=np.asarray(self.variance[i]),
            precision=np.asarray(self.precision[i]),
            noise_precision=float(self.noise_precision[i]),
            log_evidence=float(self.log_evidence[i]),
            converged=bool(self.converged[i]),
            failed=any(i == which for which, _ in self.failed),
            message=self.message[i],
            intercept=None if self.intercept is None else self.intercept[i],
            intercept_std=None if self.intercept_std is None else self.intercept_std[i],
        )

    def __iter__(self) -> Iterator[OneOfMany]:
        return (self[i] for i in range(len(self)))

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
        **_constants(target),
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


def _constants(target: Store) -> dict[str, np.ndarray]:
    """Return the intercepts, real if they are, if there are any."""
    value, std = (np.array(target.arrays[name][:]) for name in ("intercept", "intercept_std"))
    if not np.any(np.isfinite(std)):
        return {}
    return {"intercept": value if np.any(value.imag != 0) else value.real, "intercept_std": std}
