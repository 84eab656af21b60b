"""Posterior moments without a covariance: linear systems and random probes."""

from __future__ import annotations

import math

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.backend.distributed import Group
from cofem.learning.moments.gaussian import Moments, Report, log_evidence
from cofem.learning.moments.leverage import probed_leverage
from cofem.learning.moments.mean_field import Cavities
from cofem.learning.moments.shrinkage import bounded_variance, shrink_report
from cofem.learning.moments.spot_check import lowest_ratio
from cofem.model.methods import CoFEM
from cofem.model.model import Family
from cofem.operators import LinearOperator
from cofem.operators.norms import norm_squared
from cofem.solvers.cg import solve
from cofem.solvers.probes import ExtraSystems, estimate_diagonal, rademacher
from cofem.solvers.quadrature import log_determinant
from cofem.solvers.systems import Matrix, posterior_precision, preconditioner_diagonal
from cofem.solvers.verdicts import Coefficients, refuse_indefinite, trouble_of

# If R is not the identity, no exact lower bound of h_j is known. This one allows an α_j to grow by
# a factor of fifty in an iteration.
LEAST_H = 0.02
# ‖Φ‖² is found by power iteration, which approaches it from below: times this it is a bound.
NORM_SAFETY = 1.05
# Products where norms are estimated, by default 64 for those of columns and 60 for ‖Φ‖².
NORM_PRODUCTS = 64 + 60
# If R couples neighbours, the error of a loosely solved system is smooth, and all estimates are too
# small together. That is a bias, not noise, so the tolerance is tighter.
SPARSIFIED_RTOL = 1e-3
# The smallest tolerance in roundings: a residual is known to a few of them.
ROUNDINGS = 10


class CovarianceFreeEStep:
    """μ from one system a task, Σ_jj from K probes, solved together (Lin et al. 2022).

    Tasks of one family share their covariance, so they share the probes too.

    Parameters
    ----------
    family : Family
    options : CoFEM
    like : array
        Library, device and dtype of x.
    seed, stream : int
        With the iteration they decide every probe; each family has its own stream.
    sparsifier : LinearOperator, optional
        R; None: the identity.
    group : Group, optional
        Processes that share the systems; each has the whole family.
    """

    def __init__(
        self,
        family: Family,
        options: CoFEM,
        like: Array,
        seed: int,
        stream: int = 0,
        sparsifier: LinearOperator | None = None,
        group: Group | None = None,
    ) -> None:
        self._group = group
        self.family, self.options, self._like = family, options, like
        self._seed, self._sparsifier = (seed, stream), sparsifier
        xp = backend.namespace(like)
        operator, beta = family.operator, family.noise_precision
        self._block = options.block or backend.rows_at_once(like, operator.shape[1])
        self._least_rtol = ROUNDINGS * float(xp.finfo(like.dtype).eps)
        self._norms = operator.column_norms_squared(like)
        self._theta = preconditioner_diagonal(options.preconditioner, operator, like)
        self._rhs = beta * xp.astype(operator.adjoint(family.y), like.dtype)
        self._set_up = int(family.y.shape[0])
        unit = self._norms
        if sparsifier is not None:
            unit = xp.ones(
                (sparsifier.shape[0],), dtype=unit.dtype, device=backend.device_of(unit)
            ) * xp.mean(unit)
        self._cavities = Cavities(unit, beta)
        if operator.exact_column_norms:
            self._ceiling = beta * self._norms
        else:
            # Σ_jj ≥ 1/A_jj needs a true bound on ‖φ_j‖², not an estimate.
            bound = NORM_SAFETY * norm_squared(operator, like)
            self._ceiling = xp.ones_like(self._norms) * (beta * bound)
            self._set_up += NORM_PRODUCTS

    def moments(
        self,
        alpha: Array,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the mean, and unless no M-step follows the variances too."""
        xp = backend.namespace(alpha)
        options, sparsifier = self.options, self._sparsifier
        mean_system = ExtraSystems(
            self._pulled(pull),
            None if options.joint_tolerance else start,
            max(options.mean_rtol, self._least_rtol),
            options.mean_balance if sparsifier is None else 0.0,
        )
        if last and options.report_probes:
            return self._mean_only(alpha, mean_system)
        scaling = xp.sqrt(alpha) if options.scaled_probes else xp.ones_like(alpha)
        found = estimate_diagonal(
            self._matrix(alpha),
            scaling,
            like=self._like,
            n_probes=options.n_probes,
            seed=self._seed_of(iteration),
            preconditioner=self._preconditioner(alpha),
            rtol=self._tolerance(options.probe_rtol),
            max_steps=options.max_cg_steps,
            block=self._block,
            probes=options.probes,
            joint=options.joint_tolerance,
            extra=mean_system,
            image=sparsifier,
            group=self._group,
        )
        mean, mean_steps, mean_status = found.beside()
        refuse_indefinite(mean_status, found.status)
        count, image, cavity = None, mean, None
        sums: list[Array] = []
        if pull is not None:
            cavity, *sums = self._cavities.update(found, alpha)
        if sparsifier is None:
            variance, trace = backend.in_one_launch(bounded_variance, alpha)(
                found.diagonal, found.variance, alpha, self._norms,
                self._ceiling, n_probes=found.n_probes, scaled=options.scaled_probes,
                noise_precision=self.family.noise_precision, shrinkage=options.shrinkage,
            )  # fmt: skip
        else:
            h = found.diagonal if options.scaled_probes else found.diagonal * alpha
            trace = xp.sum(xp.astype(h, xp.float64))
            count, image = self._count(sparsifier, alpha, iteration), sparsifier.forward(mean)
            h = xp.clip(h, min=LEAST_H, max=1.0)
            # The posterior variance is at most the prior's.
            variance = (h if count is None else xp.minimum(h, count)) / alpha
        told = backend.to_numpy(xp.concat([xp.reshape(trace, (1,)), *sums]))  # one transfer
        departs = self._cavities.departed(told[1:], iteration) if sums else math.nan
        return Moments(
            mean=mean, variance=variance, sparse_mean=image, count=count,
            cavity=cavity, departs=departs,
            freedom=mean.shape[0] * (mean.shape[1] - float(told[0])),
            cg_steps=int(max(mean_steps.max(), found.steps.max())),
            products=2 * found.rows + self._spend_set_up(),
            trouble=trouble_of(mean_status, "mean"),
        )  # fmt: skip

    def _seed_of(self, iteration: int) -> int:
        return backend.seed_from(*self._seed, iteration + 1)  # −1: the report's

    def _pulled(self, pull: Array | None) -> Array:
        if pull is None:
            return self._rhs
        return self._rhs + (pull if self._sparsifier is None else self._sparsifier.adjoint(pull))

    def _count(self, sparsifier: LinearOperator, alpha: Array, iteration: int) -> Array | None:
        """Return the leverage of every row of R, or None to count rows."""
        options = self.options
        if not options.leverage:
            return None
        return probed_leverage(
            sparsifier,
            alpha,
            like=self._like,
            n_probes=options.n_probes,
            # The same probes as for the posterior: part of the random errors then cancels.
            seed=self._seed_of(iteration),
            rtol=self._tolerance(options.probe_rtol),
            max_steps=options.max_cg_steps,
        )

    def _mean_only(self, alpha: Array, system: ExtraSystems) -> Moments:
        found = solve(
            self._matrix(alpha),
            system.rhs,
            start=system.start,
            rtol=system.rtol,
            balance=system.balance,
            preconditioner=self._preconditioner(alpha),
            max_steps=self.options.max_cg_steps,
        )
        refuse_indefinite(found.status)
        return Moments(
            mean=found.x,
            variance=None,
            sparse_mean=found.x,
            cg_steps=int(found.steps.max()),
            products=2 * found.rows + self._spend_set_up(),
            trouble=trouble_of(found.status, "mean"),
        )

    def spot_check(self, alpha: Array, cavity: Array, chosen: np.ndarray) -> tuple[float, int]:
        """See :func:`~cofem.learning.moments.spot_check.lowest_ratio`."""
        return lowest_ratio(
            self.family.operator, lambda a: (self._matrix(a), self._preconditioner(a)), alpha,
            cavity, chosen, self._rhs[0, ...],
        )  # fmt: skip

    def report(self, alpha: Array, moments: Moments) -> Report:
        """Return variances of even relative accuracy, and the evidence.

        Probes scaled by √M, M the preconditioner, which is diag(A) for
        ``"jacobi"``: the same systems give log|A| by quadrature.
        """
        options, beta = self.options, self.family.noise_precision
        xp = backend.namespace(alpha)
        plain = self._sparsifier is None
        if not options.report_probes:
            variance = moments.variance if plain else xp.full_like(self._norms, math.nan)
            assert variance is not None  # no probes for the report: the loop's
            error = xp.full_like(variance, math.nan)
            return Report(variance, error, math.nan, math.nan)
        theta = self._norms if self._theta is None else self._theta
        scale = beta * theta + self._prior_diagonal(alpha)
        found = estimate_diagonal(
            self._matrix(alpha),
            xp.sqrt(scale),
            like=self._like,
            n_probes=options.report_probes,
            seed=self._seed_of(-1),
            preconditioner=scale,
            rtol=self._tolerance(options.report_rtol),
            max_steps=options.max_cg_steps,
            block=self._block,
            probes=rademacher,
            keep_coefficients=plain,
            group=self._group,
        )
        refuse_indefinite(found.status)
        variance, spread = found.diagonal / scale, xp.sqrt(found.variance) / scale
        error = spread / math.sqrt(found.n_probes)
        evidence = evidence_error = math.nan
        if plain:
            if options.shrinkage:
                variance, error = shrink_report(
                    variance, spread, found.n_probes, alpha, self._norms, beta
                )
            variance = xp.minimum(xp.maximum(variance, 1 / (alpha + self._ceiling)), 1 / alpha)
            evidence, evidence_error = self._evidence(alpha, moments, found.coefficients, scale)
        else:
            # An estimate can be negative by chance; a variance is at least 1/Q_jj.
            variance = xp.maximum(variance, 1 / (self._ceiling + self._prior_diagonal(alpha)))
        return Report(
            variance=variance,
            variance_error=error,
            log_evidence=evidence,
            log_evidence_error=evidence_error,
            cg_steps=int(found.steps.max()),
            products=2 * found.rows + 1,
            trouble=trouble_of(found.status, "variances"),
        )

    def _evidence(
        self, alpha: Array, moments: Moments, coefficients: list[Coefficients], scale: Array
    ) -> tuple[float, float]:
        """Return log p(y | α, β) and its standard error, by quadrature."""
        xp = backend.namespace(alpha)
        log_scale = float(xp.sum(xp.log(xp.astype(scale, xp.float64))))
        log_det, error = log_determinant(coefficients, log_scale, int(alpha.shape[0]))
        halves = 1.0 if backend.is_complex(self._like) else 0.5
        tasks = moments.mean.shape[0]
        value = log_evidence(self.family, alpha, moments.mean, log_det)
        return value, tasks * halves * error

    def _tolerance(self, rtol: float) -> float:
        most = math.inf if self._sparsifier is None else SPARSIFIED_RTOL
        return max(min(rtol, most), self._least_rtol)

    def _matrix(self, alpha: Array) -> Matrix:
        family = self.family
        return posterior_precision(family.operator, family.noise_precision, alpha, self._sparsifier)

    def _prior_diagonal(self, alpha: Array) -> Array:
        """Return the diagonal of Rᴴ diag(α) R."""
        if self._sparsifier is None:
            return alpha
        return self._sparsifier.weighted_column_norms_squared(alpha)

    def _preconditioner(self, alpha: Array) -> Array | None:
        if self._theta is None:
            return None
        return self.family.noise_precision * self._theta + self._prior_diagonal(alpha)

    def _spend_set_up(self) -> int:
        """Products made before the first iteration are counted with it."""
        products, self._set_up = self._set_up, 0
        return products
