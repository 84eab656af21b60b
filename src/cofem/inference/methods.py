"""The inference methods by name: one frozen dataclass each, holding that method's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem.inference import amp, sequential, vi
from cofem.inference.amp import AMP
from cofem.inference.journal import refuse
from cofem.inference.model import Model
from cofem.inference.options import between, positive_or_none, whole_number, zero_or_positive
from cofem.inference.sequential import Sequential
from cofem.inference.vi import VI
from cofem.linalg.probes import ProbeMaker
from cofem.operators import Autoregressive, Dense, LinearOperator, Sparse
from cofem.operators.centred import Centred

__all__ = [
    "AMP",
    "EM",
    "METHODS",
    "VI",
    "Banded",
    "CoFEM",
    "Method",
    "Sequential",
    "Woodbury",
    "cheapest",
    "choose_method",
    "is_banded",
]


@dataclass(frozen=True)
class CoFEM:
    """Covariance-free EM: posterior moments from a handful of linear systems.

    Parameters
    ----------
    n_probes : int
        K, random probes per iteration, the same at every size: shrinkage (below)
        makes more of them unnecessary (``docs/probes.md`` has the measurements).
    probe_rtol, mean_rtol : float
        Relative tolerances of the probes' systems and of the mean's. The mean
        needs a tight one (1e-4 already fails near the phase transition).
    mean_balance : float
        The mean's residual must also be below this fraction of its prior force
        α∘μ. At high noise precision βΦᴴy is so large that a residual which is
        small beside it can still be all there is in the directions that Φ does
        not see, and learning would stop there.
    max_cg_steps : int
        The most CG steps per E-step.
    preconditioner : {"jacobi", "identity", "none"} or array of shape (D,)
        θ of the preconditioner diag(βθ + α).
    report_probes, report_rtol : int, float
        Probes and tolerance of the reporting step, which gives the variances,
        their standard errors and the evidence. 0 probes: the last learning
        step's estimate is reported and there is no evidence.
    scaled_probes : bool
        Scale the probes by √α while learning: then the variance of α_j s_j is
        at most 1/(4K), whatever Φ is.
    shrinkage : bool
        Combine the probes' estimate with the mean-field diagonal 1/(α_j + cθ_j),
        weighted by how well it explains them (James–Stein).
    leverage : bool
        With a sparsifier R, count directions in the M-step rather than rows of R
        (more systems to solve, and without it the answer is too sparse).
    joint_tolerance : bool
        One common stopping rule ‖R‖_F ≤ probe_rtol ‖B‖_F for all systems, as in the paper.
    initial_precision : float, optional
        Where every α starts; None: from the scale of the data.
    probes : {"rademacher", "gaussian"} or callable
        The law of the probes; a callable ``(number, dimension, like, seed)``
        returns independent zero-mean entries of shape (number, dimension).
    block : int, optional
        How many probes are solved at a time; memory is O(D · block). None: 16 on a CPU,
        and what fits on a GPU.

    Examples
    --------
    >>> CoFEM(n_probes=20).n_probes
    20
    >>> CoFEM.paper().max_cg_steps
    400
    """

    n_probes: int = 4
    probe_rtol: float = 0.03
    mean_rtol: float = 1e-6
    mean_balance: float = 0.01
    max_cg_steps: int = 2000
    preconditioner: Any = "jacobi"
    report_probes: int = 32
    report_rtol: float = 1e-2
    scaled_probes: bool = True
    shrinkage: bool = True
    leverage: bool = True
    joint_tolerance: bool = False
    initial_precision: float | None = None
    probes: str | ProbeMaker = "rademacher"
    block: int | None = None

    name = "cofem"

    def __post_init__(self) -> None:
        whole_number("n_probes", self.n_probes, least=1)
        whole_number("max_cg_steps", self.max_cg_steps, least=1)
        whole_number("report_probes", self.report_probes, least=0)
        if self.block is not None:
            whole_number("block", self.block, least=1)
        for field in ("probe_rtol", "mean_rtol", "report_rtol"):
            between(field, getattr(self, field), 0.0, 1.0)
        zero_or_positive("mean_balance", self.mean_balance)
        positive_or_none("initial_precision", self.initial_precision)
        if isinstance(self.probes, str) and self.probes not in ("rademacher", "gaussian"):
            raise ValueError(
                f'probes must be "rademacher", "gaussian" or a function, got {self.probes!r}'
            )

    @classmethod
    def paper(cls) -> CoFEM:
        """Return the setting of the paper: 20 unscaled probes, θ = 1, one joint tolerance."""
        return cls(
            n_probes=20,
            probe_rtol=1e-4,
            mean_rtol=1e-4,
            mean_balance=0.0,
            max_cg_steps=400,
            preconditioner="identity",
            report_probes=0,
            scaled_probes=False,
            shrinkage=False,
            joint_tolerance=True,
            initial_precision=1.0,
            block=32,
        )


@dataclass(frozen=True)
class EM:
    """Exact EM by a Cholesky factor of the D×D posterior precision (Tipping 2001).

    Parameters
    ----------
    initial_precision : float, optional
        Where every α starts; None: from the scale of the data.
    leverage : bool
        With a sparsifier R, count directions in the M-step rather than rows of R.

    Examples
    --------
    >>> EM().name
    'em'
    """

    initial_precision: float | None = None
    leverage: bool = True

    name = "em"

    def __post_init__(self) -> None:
        positive_or_none("initial_precision", self.initial_precision)


@dataclass(frozen=True)
class Woodbury:
    """Exact EM through the N×N covariance of the data (Wipf & Nagarajan 2010).

    The iterates are those of :class:`EM` to rounding; cheaper when N < D.

    Examples
    --------
    >>> Woodbury().name
    'woodbury'
    """

    initial_precision: float | None = None

    name = "woodbury"

    def __post_init__(self) -> None:
        positive_or_none("initial_precision", self.initial_precision)


@dataclass(frozen=True)
class Banded:
    """Exact EM in linear time for autoregressive kernels of order one and two.

    Φ must be an :class:`~cofem.operators.Autoregressive`; its inverse is banded, and so
    every moment of the posterior comes from a recursion.

    Examples
    --------
    >>> Banded().name
    'banded'
    """

    initial_precision: float | None = None

    name = "banded"

    def __post_init__(self) -> None:
        positive_or_none("initial_precision", self.initial_precision)


Method = CoFEM | EM | Woodbury | Banded | AMP | VI | Sequential
METHODS: dict[str, type[Method]] = {
    "cofem": CoFEM,
    "em": EM,
    "woodbury": Woodbury,
    "banded": Banded,
    "amp": AMP,
    "vi": VI,
    "sequential": Sequential,
}


def choose_method(method: Any, model: Model) -> Method:
    """Turn a name or a dataclass into a method; ``"auto"`` picks by structure and size."""
    if isinstance(method, Method):
        chosen: Method = method
    elif isinstance(method, str) and method == "auto":
        chosen = _best_for(model)
    elif isinstance(method, str) and method in METHODS:
        chosen = METHODS[method]()
    elif isinstance(method, type) and method in METHODS.values():
        raise TypeError(f"method must be an instance: write cofem.{method.__name__}()")
    else:
        names = ", ".join(repr(n) for n in ("auto", *METHODS))
        kind = ValueError if isinstance(method, str) else TypeError
        raise kind(f"method must be one of {names} or a method object, got {method!r}")
    _refuse_unfit(chosen, model)
    return chosen


def _best_for(model: Model) -> Method:
    operators = [task.operator for task in model.tasks]
    if model.sparsifier is None and all(map(is_banded, operators)):
        return Banded()
    first = operators[0]
    dense = isinstance(first.op if isinstance(first, Centred) else first, (Dense, Sparse))
    if model.sparsifier is not None:
        # Woodbury needs the inverse of the prior; the probes are several times as many.
        small = operators[0].shape[1] <= (1000 if dense else 300)
        return EM() if small else CoFEM()
    return cheapest(*operators[0].shape, dense=dense)


def is_banded(operator: LinearOperator) -> bool:
    """Whether the exact linear-time recursions know this Φ."""
    return isinstance(operator, Autoregressive) and len(operator.coefficients) <= 2


def _refuse_unfit(method: Method, model: Model) -> None:
    """Say by name what a method cannot do, before anything is computed."""
    if isinstance(method, Banded):
        unfit = [t.operator for t in model.tasks if not is_banded(t.operator)]
        if unfit and any(t.intercept is not None or t.weights is not None for t in model.tasks):
            raise ValueError(
                'method "banded" takes neither intercept=True nor noise that differs between rows; '
                'use "cofem" or "auto"'
            )
        if unfit:
            raise ValueError(
                'method "banded" needs phi to be an operators.Autoregressive of order 1 or 2, '
                f"got {unfit[0]!r}"
            )
    for kind, takes in ((AMP, amp.TAKES), (VI, vi.TAKES), (Sequential, sequential.TAKES)):
        if isinstance(method, kind):
            refuse(model, method.name, **takes)
    if model.sparsifier is not None and not isinstance(method, (CoFEM, EM)):
        raise ValueError(
            f'method "{method.name}" does not take a sparsifier; use "cofem" or "em"'
        )


# A dense matrix is factorised even where that takes so many times the products of CoFEM.
EXACT_FOR_DENSE = 5.0


def cheapest(n_rows: int, n_columns: int, *, dense: bool) -> Method:
    """Return exact EM where its factorisation costs less than CoFEM's products at that size.

    Examples
    --------
    >>> cheapest(50, 200, dense=True).name
    'woodbury'
    >>> cheapest(20_000, 60_000, dense=False).name
    'cofem'
    """
    exact_em = 1.4 * n_columns**3
    exact_woodbury = 2.0 * n_rows**2 * n_columns + n_rows**3
    # An iteration multiplies about 120 rows by ΦᴴΦ, at half the speed of the
    # factorisations, and costs a millisecond or two besides.
    if not dense:
        per_row = 20.0 * n_columns * np.log2(n_columns + 2)
    else:
        per_row = min(4.0 * n_rows * n_columns, 2.0 * n_columns**2)
    covariance_free = 250 * per_row + 3e7
    if dense:  # a matrix may be coherent, and then probes need many more
        covariance_free *= EXACT_FOR_DENSE
    if min(exact_em, exact_woodbury) > covariance_free:
        return CoFEM()
    return EM() if exact_em <= exact_woodbury else Woodbury()
