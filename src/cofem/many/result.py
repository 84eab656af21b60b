"""What ``fit_many`` returns."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cofem import backend, fitting
from cofem.fitting.outlying import FAR_AWAY
from cofem.many.layout import CONVERGED, FAILED
from cofem.many.marginals import OF_COMPONENTS, OF_COORDINATES, Kept
from cofem.many.stores import Store
from cofem.result.posterior import Posterior


@dataclass(frozen=True, eq=False)
class OneOfMany:
    """What is left of one fit; the names are those of :class:`~cofem.Posterior`.

    For draws and predictions fit that row again: ``cofem.fit(phi, Y[i])``, with the options that
    ``fit_many`` had, ends at the same numbers.

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
    prior : str
        "mixture" or "ard", as it ran; empty if the fit failed or an old store does not say.
    probability : array (D,) or None
        P(z_j ≠ 0) under the learned prior.
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
    prior: str = ""
    probability: np.ndarray | None = None
    posterior: Posterior | None = field(default=None, repr=False)

    @property
    def std(self) -> np.ndarray:
        """The square root of the variance."""
        return np.asarray(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), as :meth:`cofem.Posterior.interval`; NaN if the fit failed."""
        low, high = (backend.to_numpy(x) for x in self._known().interval(level))
        return np.where(self.failed, np.nan, low), np.where(self.failed, np.nan, high)

    def support(self, level: float = 0.95) -> np.ndarray:
        """Return the mask of coordinates that are not zero; none if the fit failed."""
        return np.asarray(self._known().support(level)) & (not self.failed)

    def _known(self) -> Posterior:
        if self.posterior is None:
            raise ValueError(
                "the store is from a version that did not keep what intervals and supports need; "
                "fit_many(…, resume=False) fits again and keeps it"
            )
        return self.posterior

    def __repr__(self) -> str:
        state = "failed" if self.failed else "converged" if self.converged else "not converged"
        return f"OneOfMany({len(self.mean)} unknowns; {state}: {self.message})"


@dataclass(frozen=True, eq=False)
class ManyPosteriors:
    """The results of many fits: one row for every problem.

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
    prior : list of str
        "mixture" or "ard" for every problem, as it ran.
    probability : array (P, D) or None
        P(z_j ≠ 0) under the learned prior, NaN where "ard" ran; None if it ran everywhere.

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
    >>> many.support().astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    >>> low, high = many.interval(0.95)
    >>> bool(low[1, 1] < 1 < high[1, 1]), many.prior
    (True, ['mixture', 'mixture', 'mixture'])
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
    prior: list[str] = field(default_factory=list)
    probability: Any = None
    kept: Kept | None = field(default=None, repr=False)

    @property
    def std(self) -> np.ndarray:
        """The square root of the variance, read into memory."""
        return np.asarray(np.sqrt(self.variance[:]))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), each (P, D): :meth:`cofem.Posterior.interval` of every problem.

        In memory, and NaN where a fit failed.
        """
        rows = [one.interval(level) for one in self]
        return np.stack([low for low, _ in rows]), np.stack([high for _, high in rows])

    def support(self, level: float = 0.95) -> np.ndarray:
        """Return the mask (P, D) of coordinates that are not zero.

        Of every problem by itself: the expected share of false ones is within 1 − ``level`` in each
        of them. None where a fit failed.
        """
        return np.stack([one.support(level) for one in self])

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
        mean, variance = np.asarray(self.mean[i]), np.asarray(self.variance[i])
        return OneOfMany(
            mean=mean,
            variance=variance,
            precision=np.asarray(self.precision[i]),
            noise_precision=float(self.noise_precision[i]),
            log_evidence=float(self.log_evidence[i]),
            converged=bool(self.converged[i]),
            failed=any(i == which for which, _ in self.failed),
            message=self.message[i],
            intercept=None if self.intercept is None else self.intercept[i],
            intercept_std=None if self.intercept_std is None else self.intercept_std[i],
            prior="" if self.kept is None else self.kept.prior(i),
            probability=None if self.kept is None else self.kept.probabilities(i),
            posterior=None if self.kept is None else self.kept.posterior(i, mean, variance),
        )

    def __iter__(self) -> Iterator[OneOfMany]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        problems, unknowns = self.mean.shape
        return (
            f"ManyPosteriors({problems} problems × {unknowns} unknowns; "
            f"{int(np.sum(self.converged))} converged, {len(self.failed)} failed)"
        )


def result_of(target: Store, problems: int, options: dict[str, Any]) -> ManyPosteriors:
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
        **_marginals(target, problems, options),
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
    if unsettled and options.get("tol") != 0:
        warnings.warn(
            f"{unsettled} of {problems} fits did not converge; see .converged and .message",
            fitting.ConvergenceWarning,
            stacklevel=3,
        )
    if named := [i for i, message in enumerate(messages) if FAR_AWAY in message]:
        warnings.warn(
            f"in {len(named)} of {problems} fits, the first of them {named[0]}, {FAR_AWAY}; see "
            ".message",
            UserWarning,
            stacklevel=3,
        )
    return result


def _marginals(target: Store, problems: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return what intervals and supports are made from, where the store has it."""
    if "prior" not in target.arrays:
        return {"prior": [""] * problems}
    arrays = {name: target.readable(name) for name in (*OF_COORDINATES, *OF_COMPONENTS)}
    arrays["prior"] = np.array(target.arrays["prior"][:])
    kept = Kept(arrays, options.get("groups"), bool(options.get("nonnegative", False)))
    ran = [kept.prior(i) for i in range(problems)]
    learned = "mixture" in ran
    return {"prior": ran, "probability": arrays["probability"] if learned else None, "kept": kept}


def _constants(target: Store) -> dict[str, Any]:
    """Return the intercepts, real if they are, if there are any."""
    value, std = (np.array(target.arrays[name][:]) for name in ("intercept", "intercept_std"))
    if not np.any(np.isfinite(std)):
        return {}
    return {"intercept": value if np.any(value.imag != 0) else value.real, "intercept_std": std}
