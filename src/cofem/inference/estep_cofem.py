"""Posterior moments without a covariance: linear systems and random probes."""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.inference.methods import CoFEM
from cofem.inference.model import Task
from cofem.inference.moments import Moments, Report, log_evidence
from cofem.inference.shrinkage import shrink, shrink_report
from cofem.linalg.cg import solve
from cofem.linalg.cg_result import Status
from cofem.linalg.preconditioners import preconditioner_diagonal
from cofem.linalg.probes import ExtraSystems, ProbeMaker, estimate_diagonal, rademacher
from cofem.linalg.quadrature import log_determinant
from cofem.linalg.systems import ShiftedGram
from cofem.operators.norms import norm_squared


class CovarianceFreeEStep:
    """μ from one system, Σ_jj from K probes, solved together (Lin et al. 2022).

    Parameters
    ----------
    task : Task
    options : CoFEM
    like : array
        Library, device and dtype of z.
    seed, stream : int
        With the iteration they decide every probe; each task has its own stream.
    """

    def __init__(
        self, task: Task, options: CoFEM, like: Array, seed: int, stream: int = 0
    ) -> None:
        self.task, self.options, self._like = task, options, like
        self._seed = (seed, stream)
        xp = backend.namespace(like)
        operator, beta = task.operator, task.noise_precision
        self._precision = float(xp.finfo(like.dtype).eps)
        self._norms = operator.column_norms_squared(like)
        self._theta = preconditioner_diagonal(options.preconditioner, operator, like)
        self._rhs = beta * xp.astype(operator.adjoint(task.y), like.dtype)
        self._set_up = 1
        if operator.exact_column_norms:
            self._ceiling = beta * self._norms
        else:
            # Σ_jj ≥ 1/A_jj needs a true bound on ‖φ_j‖², not an estimate.
            bound = 1.05 * norm_squared(operator, like)
            self._ceiling = xp.ones_like(self._norms) * (beta * bound)
            self._set_up += 64 + 60  # the norms by probes and the bound by iteration

    # -- learning --------------------------------------------------------------

    def moments(self, alpha: Array, start: Array | None, iteration: int, last: bool) -> Moments:
        """Return the mean, and unless no M-step follows the variances too."""
        xp = backend.namespace(alpha)
        options, beta = self.options, self.task.noise_precision
        matrix = ShiftedGram(self.task.operator, beta, alpha)
        mean_system = ExtraSystems(
            self._rhs[None, :],
            None if start is None or options.joint_tolerance else start[None, :],
            max(options.mean_rtol, 10 * self._precision),
            options.mean_balance,
        )
        if last and options.report_probes:
            return self._mean_only(matrix, mean_system)
        scaling = xp.sqrt(alpha) if options.scaled_probes else xp.ones_like(alpha)
        found = estimate_diagonal(
            matrix,
            scaling,
            like=self._like,
            n_probes=options.n_probes,
            seed=_seed(self._seed, iteration),
            preconditioner=self._preconditioner(alpha),
            rtol=options.probe_rtol,
            max_steps=options.max_cg_steps,
            block=options.block,
            probes=_probe_maker(options.probes),
            joint=options.joint_tolerance,
            extra=mean_system,
        )
        mean, mean_steps, mean_status = found.beside()
        to_h = xp.ones_like(alpha) if options.scaled_probes else alpha
        estimate = found.diagonal * to_h
        freedom = float(xp.sum(xp.astype(1 - estimate, xp.float64)))
        if options.shrinkage:
            estimate = shrink(
                estimate, found.variance * to_h**2, found.n_probes, alpha, self._norms, beta
            ).h
        lower = alpha / (alpha + self._ceiling)
        h = xp.clip(xp.maximum(estimate, lower), max=1.0)
        _refuse_indefinite(mean_status, found.status)
        return Moments(
            mean=mean[0, :],
            variance=h / alpha,
            freedom=freedom,
            cg_steps=int(max(mean_steps.max(), found.steps.max())),
            products=2 * found.rows + self._spend_set_up(),
            trouble=_trouble(mean_status, "mean"),
        )

    def _mean_only(self, matrix: ShiftedGram, system: ExtraSystems) -> Moments:
        found = solve(
            matrix,
            system.rhs,
            start=system.start,
            rtol=system.rtol,
            balance=system.balance,
            preconditioner=self._preconditioner(matrix.diagonal),
            max_steps=self.options.max_cg_steps,
        )
        _refuse_indefinite(found.status)
        return Moments(
            mean=found.x[0, :],
            variance=None,
            cg_steps=int(found.steps.max()),
            products=2 * found.rows + self._spend_set_up(),
            trouble=_trouble(found.status, "mean"),
        )

    # -- reporting -------------------------------------------------------------

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return variances of even relative accuracy, and the evidence.

        Probes scaled by √M, M the preconditioner, which is diag(A) for
        ``"jacobi"``: the same systems give log|A| by quadrature.
        """
        options, beta = self.options, self.task.noise_precision
        xp = backend.namespace(alpha)
        if not options.report_probes:
            error = xp.full_like(alpha, math.nan)
            return Report(moments.variance, error, math.nan, math.nan)
        theta = self._norms if self._theta is None else self._theta
        scale = beta * theta + alpha
        found = estimate_diagonal(
            ShiftedGram(self.task.operator, beta, alpha),
            xp.sqrt(scale),
            like=self._like,
            n_probes=options.report_probes,
            seed=_seed(self._seed, -1),
            preconditioner=scale,
            rtol=max(options.report_rtol, 10 * self._precision),
            max_steps=options.max_cg_steps,
            block=options.block,
            probes=rademacher,
            keep_coefficients=True,
        )
        _refuse_indefinite(found.status)
        variance, spread = found.diagonal / scale, xp.sqrt(found.variance) / scale
        if options.shrinkage:
            variance, error = shrink_report(
                variance, spread, found.n_probes, alpha, self._norms, beta
            )
        else:
            error = spread / math.sqrt(found.n_probes)
        variance = xp.minimum(xp.maximum(variance, 1 / (alpha + self._ceiling)), 1 / alpha)
        log_scale = float(xp.sum(xp.log(xp.astype(scale, xp.float64))))
        log_det, log_det_error = log_determinant(
            found.coefficients, log_scale, int(alpha.shape[0])
        )
        halves = 1.0 if backend.is_complex(self._like) else 0.5
        return Report(
            variance=variance,
            variance_error=error,
            log_evidence=log_evidence(self.task, alpha, moments.mean, log_det),
            log_evidence_error=halves * log_det_error,
            cg_steps=int(found.steps.max()),
            products=2 * found.rows + 1,
            trouble=_trouble(found.status, "variances"),
        )

    # -- small things ----------------------------------------------------------

    def _preconditioner(self, alpha: Array) -> Array | None:
        if self._theta is None:
            return None
        return self.task.noise_precision * self._theta + alpha

    def _spend_set_up(self) -> int:
        """Products made before the first iteration are counted with it."""
        products, self._set_up = self._set_up, 0
        return products


def _gaussian(number: int, dimension: int, like: Array, seed: int) -> Array:
    return backend.Random(seed).normal((number, dimension), like)


def _probe_maker(law: str | ProbeMaker) -> ProbeMaker:
    if not isinstance(law, str):
        return law
    return {"rademacher": rademacher, "gaussian": _gaussian}[law]


def _seed(seed: tuple[int, int], iteration: int) -> int:
    """Return one seed per iteration; −1 is the reporting step's."""
    words = np.random.SeedSequence([*seed, iteration + 1]).generate_state(1, np.uint64)
    return int(words[0])


def _refuse_indefinite(*statuses: np.ndarray) -> None:
    if any(np.any(s == Status.NOT_POSITIVE) for s in statuses):
        raise ValueError(f"phi: {Status.NOT_POSITIVE.message}")


def _trouble(status: np.ndarray, what: str) -> str:
    worst = Status(int(status.max()))
    return "" if worst in (Status.CONVERGED, Status.STAGNATED) else f"{what}: {worst.message}"
