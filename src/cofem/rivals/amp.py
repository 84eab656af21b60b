"""EM with the moments of generalised approximate message passing (GAMP).

Instead of inverting the posterior precision, messages are passed between data and unknowns, back
and forth (Rangan 2011; for sparse Bayesian learning Al-Shoukairi & Rao 2014,
Fang, Zhang & Li 2016, Al-Shoukairi, Schniter & Rao 2018). With a Gaussian prior and
Gaussian noise a step is

    τ^p = |Φ|² τ^x                       p = Φx − τ^p s
    s   = (y − p) / (τ^p + 1/β)          τ^s = 1 / (τ^p + 1/β)
    1/τ^r = |Φᴴ|² τ^s                    r = x + τ^r Φᴴs
    x   = r / (1 + α τ^r)                τ^x = τ^r / (1 + α τ^r)

The entries of Φ, and so |Φ|², are not known if Φ is given by functions. |Φ|² is replaced by the
matrix of rank one with the same sums over rows and columns, ρ_i c_j / ΣC, where ρ and c are the
squared norms of rows and columns: then a step costs two products.

If the steps converge, αx = βΦᴴ(y − Φx): the mean is exact for every Φ. The variances are those of a
large matrix with independent entries. The steps need not converge: they diverge if the entries of Φ
have a mean, or if its columns are strongly correlated, as those of a convolution are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import LoopResult, Outcome
from cofem.learning.moments.gaussian import Moments, Report
from cofem.learning.recording import Callback, Recorder
from cofem.learning.sites.ard import update_precision
from cofem.learning.stopping import Verdict
from cofem.model.choosing import refuse_unfit
from cofem.model.model import Model, Task
from cofem.model.rival_methods import AMP

# If ‖y − Φμ‖ is larger than DIVERGED ‖y‖ after the steps of an iteration, the mean diverges. The
# steps themselves stop as soon as it is larger than HOPELESS ‖y‖.
DIVERGED, HOPELESS = 10.0, 1e8
# For every posterior mean ‖y − Φμ‖ ≤ ‖y‖, because β‖y − Φμ‖² + Σα|μ|² ≤ β‖y‖²; this leaves room for
# rounding.
SOUND = 1 + 1e-4


def run(
    model: Model,
    options: AMP,
    alpha: Array,
    *,
    seed: int,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Outcome:
    """Alternate message passing and M-steps until the mean settles, or it diverges.

    Parameters
    ----------
    model : Model
        One task; groups, coupling and z ≥ 0 act on the M-step as in EM.
    options : AMP
    alpha : array (D,)
        Where learning starts.
    seed : int
        Not used: nothing is random.
    max_iter, tol, callback
        As for :func:`cofem.fit`.
    """
    refuse_unfit(options, model)
    messages = _Messages(model.tasks[0], model.like, options.damping)
    state = messages.start(alpha)
    kept, kept_alpha, kept_at = state, alpha, 0
    recorder = Recorder(max_iter, tol, callback)
    while True:
        state = messages.step(state, alpha, options.inner_steps)
        if not state.misfit <= DIVERGED:
            verdict, last = Verdict.DIVERGED, recorder.iteration + 1
            break
        if state.misfit <= SOUND:
            kept, kept_alpha, kept_at = state, alpha, recorder.iteration + 1
        recorder.add([state.mean], alpha, products=messages.products)
        ended = recorder.verdict(recorder.mean_settled, Verdict.MEAN_NOT_SETTLED)
        if ended is not None:
            verdict, last = ended if kept is state else Verdict.DIVERGED, recorder.iteration
            break
        alpha = update_precision(model, [_moments(state)])
    if not recorder.iteration:  # it diverged at once; the history still has its row
        recorder.add([kept.mean], kept_alpha, products=messages.products)
    recorder.history["products"][-1] = messages.products
    left = f"the result is that of iteration {kept_at}" if kept_at else "the result is the prior"
    facts = {**recorder.facts, "iteration": last, "left": left, "damping": options.damping}
    found = LoopResult(kept_alpha, [kept.mean], verdict, facts, recorder.history)
    return Outcome(found, [_report(kept)])


@dataclass(frozen=True)
class _State:
    """The messages after a step.

    ``mean`` (D,) and ``variance`` (D,) are x and τ^x, ``fitted`` (N,) is Φx,
    ``residual`` (N,) is s, and ``misfit`` is ‖y − Φx‖/‖y‖.
    """

    mean: Array
    variance: Array
    fitted: Array
    residual: Array
    misfit: float


class _Messages:
    """GAMP for one task, with |Φ|² replaced by a matrix of rank one."""

    def __init__(self, task: Task, like: Array, damping: float) -> None:
        xp = backend.namespace(like)
        self._task, self._like, self._keep = task, like, damping
        self._real = backend.real_dtype(like.dtype, xp)
        columns = task.operator.column_norms_squared(like)
        rows = task.operator.H.column_norms_squared(like)
        # Both sums are ‖Φ‖²_F, but norms of user functions are estimates.
        self._columns = columns
        self._rows = rows / self._floor(xp.sum(rows))
        self._noise = 1 / task.noise_precision
        self._size = math.sqrt(backend.squared_size(task.y))
        self.products = 0

    def start(self, alpha: Array) -> _State:
        """Return the prior: mean zero, variance 1/α."""
        xp = backend.namespace(alpha)
        mean = xp.zeros(alpha.shape, dtype=self._like.dtype, device=backend.device_of(alpha))
        y = self._task.y
        dtype = backend.complex_dtype(y.dtype, xp) if backend.is_complex(self._like) else y.dtype
        zero = xp.zeros(y.shape, dtype=dtype, device=backend.device_of(y))
        return _State(mean, 1 / alpha, zero, zero, 1.0)

    def step(self, state: _State, alpha: Array, steps: int) -> _State:
        """Pass ``steps`` rounds of messages at this α, or fewer if they diverge."""
        for _ in range(steps):
            state = self._round(state, alpha)
            # Not a comparison with >: NaN must stop it too.
            if not state.misfit <= HOPELESS:
                break
        return state

    def _round(self, state: _State, alpha: Array) -> _State:
        xp, operator, keep = backend.namespace(alpha), self._task.operator, self._keep
        predicted = self._rows * xp.sum(self._columns * state.variance)  # τ^p
        spread = predicted + self._noise
        # (y − p)/(τ^p + 1/β) with p = Φx − τ^p s
        residual = (self._task.y - state.fitted + predicted * state.residual) / spread
        residual = keep * state.residual + (1 - keep) * residual
        precision = self._columns * xp.sum(self._rows / spread)  # 1/τ^r; zero for a zero column
        pull = precision * state.mean + operator.adjoint(residual)  # r/τ^r
        mean = keep * state.mean + (1 - keep) * pull / (precision + alpha)
        mean = xp.astype(mean, self._like.dtype, copy=False)
        fitted = operator.forward(mean)
        self.products += 2
        miss = math.sqrt(backend.squared_size(self._task.y - fitted))
        return _State(
            mean=mean,
            variance=xp.astype(1 / (precision + alpha), self._real, copy=False),
            fitted=fitted,
            residual=residual,
            misfit=miss / self._size if self._size > 0 else (0.0 if miss == 0 else math.inf),
        )

    @staticmethod
    def _floor(total: Array) -> Array:
        return total if float(total) > 0 else total + 1  # Φ = 0: all messages are zero


def _moments(state: _State) -> Moments:
    rows = state.mean[None, :]
    return Moments(mean=rows, variance=state.variance, sparse_mean=rows)


def _report(state: _State) -> Report:
    xp = backend.namespace(state.variance)
    unknown = xp.full_like(state.variance, math.nan)
    return Report(state.variance, unknown, math.nan, math.nan)
