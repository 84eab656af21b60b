"""The inference methods by name: one frozen dataclass each, holding that method's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cofem.arguments import between, positive_or_none, whole_number, zero_or_positive
from cofem.model.rival_methods import AMP, VI, Sequential
from cofem.solvers.probes import LAWS, ProbeMaker

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
]

# Every method says what it can do besides a sparse z (``takes``; "processes": its linear systems
# can be shared out among processes), whether a fit can go on from a checkpoint (``resumes``), and
# whether it computes moments under the sites of a learned prior (``takes_sites``).
ALL_BUT_SPARSIFIER = ("joint", "groups", "coupling", "nonnegative")
EVERYTHING = (*ALL_BUT_SPARSIFIER, "sparsifier")


@dataclass(frozen=True)
class CoFEM:
    """Covariance-free EM: posterior moments from a handful of linear systems.

    Parameters
    ----------
    n_probes : int
        K, random probes per iteration, the same at every size: shrinkage (below)
        makes more of them unnecessary (``docs/notes/probes.md`` has the measurements).
    probe_rtol, mean_rtol : float
        Relative tolerances of the probes' systems and of the mean's. The mean
        needs a tight one (1e-4 already fails near the phase transition).
    mean_balance : float
        A second tolerance for the system of the mean: its residual must also be below this
        fraction of α∘μ, the prior's term. At high noise precision βΦᴴy is very large. A residual
        that is small relative to it can still be larger than every component in directions that Φ
        maps to zero, and these components would not be learned.
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
    takes: ClassVar[tuple[str, ...]] = (*EVERYTHING, "processes")
    resumes: ClassVar[bool] = True

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
        if isinstance(self.probes, str) and self.probes not in LAWS:
            raise ValueError(
                f'probes must be "rademacher", "gaussian" or a function, got {self.probes!r}'
            )

    @property
    def takes_sites(self) -> bool:
        """Whether the E-step works under the sites of a learned prior; the paper's does not."""
        return self.scaled_probes and not self.joint_tolerance

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
    takes: ClassVar[tuple[str, ...]] = EVERYTHING
    resumes: ClassVar[bool] = True
    takes_sites: ClassVar[bool] = True

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
    takes: ClassVar[tuple[str, ...]] = ALL_BUT_SPARSIFIER
    resumes: ClassVar[bool] = True
    takes_sites: ClassVar[bool] = True

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
    takes: ClassVar[tuple[str, ...]] = ALL_BUT_SPARSIFIER
    resumes: ClassVar[bool] = True
    takes_sites: ClassVar[bool] = True

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
