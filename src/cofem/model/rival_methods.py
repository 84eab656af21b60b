"""The options of the methods that have a loop of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from cofem.arguments import between, positive_or_none, whole_number


@dataclass(frozen=True)
class AMP:
    """EM with moments by approximate message passing: O(inner_steps) products an iteration.

    Works for matrices with independent entries of mean zero and for random rows of an
    orthonormal transform. It diverges on others, for example a convolution; the result
    then has ``converged=False``, a message that says so, and the last estimate that
    fitted the data better than zero does. The mean is exact where the steps
    settle; the variances are exact only for large random matrices, with an error that is
    not known, so ``variance_error``, ``log_evidence`` and its error are NaN.

    Parameters
    ----------
    inner_steps : int
        Message-passing steps before each update of the prior precisions.
    damping : float
        Share of the old value kept in every step, from 0 to below 1. More makes
        divergence rarer and learning slower.
    initial_precision : float, optional
        α at the start; from the scale of the data by default.

    Examples
    --------
    >>> AMP(inner_steps=5).damping
    0.0
    """

    inner_steps: int = 10
    damping: float = 0.0
    initial_precision: float | None = None

    name = "amp"
    takes: ClassVar[tuple[str, ...]] = ("groups", "coupling", "nonnegative")
    resumes: ClassVar[bool] = False
    takes_sites: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole_number("inner_steps", self.inner_steps, least=1)
        if not (_is_number(self.damping) and 0 <= self.damping < 1):
            raise ValueError(f"damping must be a number from 0 to below 1, got {self.damping!r}")
        positive_or_none("initial_precision", self.initial_precision)


@dataclass(frozen=True)
class VI:
    """Inverse-free learning by a relaxed lower bound: two products an iteration, any Φ.

    The estimates are biased: ``variance`` is 1/(βλ + α_j), too small where Φ maps some directions
    to zero, with an error that is not known (``variance_error`` is NaN).
    ``log_evidence``, in the history too, is the relaxed lower bound, which rises at
    every iteration; how far it lies below the evidence is not known either.

    Parameters
    ----------
    power_steps : int
        Products with ΦᴴΦ that find ‖Φ‖² before the first iteration.
    safety : float
        λ is that estimate, which comes from below, times this.
    initial_precision : float, optional
        α at the start; from the scale of the data by default.

    Examples
    --------
    >>> VI().name
    'vi'
    """

    power_steps: int = 50
    safety: float = 1.1
    initial_precision: float | None = None

    name = "vi"
    takes: ClassVar[tuple[str, ...]] = ("groups",)
    resumes: ClassVar[bool] = False
    takes_sites: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole_number("power_steps", self.power_steps, least=1)
        between("safety", self.safety, 0.0, math.inf)
        if self.safety < 1:
            raise ValueError(f"safety must be at least 1, got {self.safety!r}")
        positive_or_none("initial_precision", self.initial_precision)


@dataclass(frozen=True)
class Sequential:
    """Coordinates added, re-estimated and deleted one by one, by the largest evidence gain.

    Exact: means, variances and evidence are those of the prior precisions found.
    Memory is O(D + d²) for d active coordinates. The time is that of two to four products
    and O(d²) a move, and about one to three moves for every non-zero; near the phase transition the
    greedy search finds worse answers than EM.

    An iteration, what ``max_iter`` counts, is a batch of moves. A fit is converged when
    no move raises the log evidence by ``min_gain``, or when a whole batch changes the mean by
    less than ``tol``. A coordinate that is not active has mean zero and infinite precision;
    it is given 10¹² β max‖φ_j‖² instead, so that draws and predictions, which solve with
    ``precision``, work, and its variance is one over that.

    Parameters
    ----------
    moves_per_iteration : int, optional
        Moves in a batch; D/32, and at least 8, by default.
    min_gain : float
        Moves that raise the log evidence by less than this, for each task, are not made.

    Examples
    --------
    >>> Sequential(moves_per_iteration=100).min_gain
    0.01
    """

    moves_per_iteration: int | None = None
    min_gain: float = 1e-2

    name = "sequential"
    takes: ClassVar[tuple[str, ...]] = ("joint",)
    resumes: ClassVar[bool] = False
    takes_sites: ClassVar[bool] = False
    # All precisions start at infinity; other methods have this as an option.
    initial_precision: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.moves_per_iteration is not None:
            whole_number("moves_per_iteration", self.moves_per_iteration, least=1)
        between("min_gain", self.min_gain, 0.0, math.inf)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
