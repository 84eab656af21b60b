"""The linear systems of P problems with one Φ, solved as one, and what they say of each.

Each problem is in units in which its E-steps have the noise precision one, so the matrix of
problem p is ΦᴴΦ + diag(a_p), and all of them together are one matrix with P blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.mean_field import LOOKED_AT, LOWEST, MOST_STEPS, SETTLED, SPOT_RTOL
from cofem.many.copies import Copies
from cofem.model.methods import CoFEM
from cofem.operators import LinearOperator
from cofem.solvers.cg import solve
from cofem.solvers.probes import LAWS, ExtraSystems, estimate_diagonal
from cofem.solvers.systems import ShiftedGram
from cofem.solvers.verdicts import refuse_indefinite

# A residual of all problems together may be that of a few of them: so many times smaller, a probe's
# is within its tolerance in a problem of every hundred. (As loose as for one problem, some means
# were off by a third of their error.)
TIGHTER = 10.0
LOOK = 4  # steps of Newton's between looks, each of which waits for the device


@dataclass(frozen=True)
class Sides:
    """What an E-step found, for every problem.

    Attributes
    ----------
    mean : array (P, D)
    field : array (P,)
        The one number of each problem's cavities: c_j = field · θ_j.
    freedom : array (P,)
        How many data each fit uses up.
    excess, size : array (P,)
        Sums for how far the probes depart from those cavities.
    products : int
    """

    mean: Array
    field: Array
    freedom: Array
    excess: Array
    size: Array
    products: int


@final
class Systems:
    """E-steps of P problems at once.

    Parameters
    ----------
    phi : LinearOperator (N, D)
    Y : array (P, N)
    options : CoFEM
    seed : int
    """

    def __init__(self, phi: LinearOperator, Y: Array, options: CoFEM, seed: int) -> None:
        xp = backend.namespace(Y)
        self._phi, self._options, self._seed = phi, options, seed
        self.Y, self.number, self.n = Y, int(Y.shape[0]), int(phi.shape[1])
        self.norms = phi.column_norms_squared(Y)
        self._rhs = xp.astype(phi.adjoint(Y), Y.dtype)
        self._copies = Copies(phi, self.number)
        self._eps = float(xp.finfo(Y.dtype).eps)
        self._tighter = min(self.number**0.5, TIGHTER)

    def only(self, kept: Array) -> Systems:
        """Return the systems of some of the problems, given by their numbers."""
        Y = backend.namespace(self.Y).take(self.Y, kept, axis=0)
        return Systems(self._phi, Y, self._options, self._seed)

    def moments(self, a: Array, b: Array | None, start: Array | None, iteration: int) -> Sides:
        """Solve for the means and for probes under sites a and b, (P, D)."""
        xp, options = backend.namespace(a), self._options
        alpha = xp.reshape(a, (-1,))
        rhs = self._rhs if b is None else self._rhs + b
        beside = ExtraSystems(
            xp.reshape(rhs, (1, -1)), None if start is None else xp.reshape(start, (1, -1)),
            max(options.mean_rtol, 10 * self._eps), options.mean_balance,
        )  # fmt: skip
        like = xp.reshape(self._rhs, (-1,))
        found = estimate_diagonal(
            ShiftedGram(self._copies, 1.0, alpha), xp.sqrt(alpha), like=like,
            n_probes=options.n_probes, seed=backend.seed_from(self._seed, 0, iteration + 1),
            preconditioner=self._preconditioner(alpha),
            rtol=max(options.probe_rtol / self._tighter, 10 * self._eps),
            max_steps=options.max_cg_steps,
            block=options.block or backend.rows_at_once(like, int(like.shape[0])),
            probes=LAWS[options.probes] if isinstance(options.probes, str) else options.probes,
            extra=beside,
        )  # fmt: skip
        mean, _, status = found.beside()
        refuse_indefinite(status, found.status)
        shape = (self.number, self.n)
        h, spread = xp.reshape(found.diagonal, shape), xp.reshape(found.variance, shape)
        trace = xp.sum(xp.astype(h, xp.float64), axis=1)
        field = fields(a, self.norms, trace)
        expected = 1 - a / (a + column(field, a) * self.norms)
        k = found.n_probes
        noise = spread / k if k > 1 else expected * (1 - expected)
        departure = (1 - h - expected) ** 2 - noise
        return Sides(
            xp.reshape(mean, shape), field, self.n - trace, _sums(departure), _sums(expected**2),
            2 * found.rows * self.number,
        )  # fmt: skip

    def residuals(self, mean: Array) -> Array:
        """Return ‖y − Φμ‖² of every problem, (P,)."""
        return _sums(backend.abs_squared(self.Y - self._phi.forward(mean)))

    def lowest_ratios(self, a: Array, field: Array, probability: Array) -> tuple[Array, int]:
        """Return the lowest exact c_j over the field's among a few coordinates, (P,).

        Looked at are some that are probably not zero, and those whose columns are most like theirs,
        as :func:`cofem.learning.moments.mean_field.lowest_ratio` does for one problem.
        """
        xp = backend.namespace(a)
        random = backend.Random(self._seed, 23).uniform((self.number, self.n), a)
        likely = probability > 0.5
        chosen = xp.argsort(xp.where(likely, random, 2 + random), axis=1)[:, :LOOKED_AT]
        counts = xp.take_along_axis(xp.astype(likely, a.dtype), chosen, axis=1)
        columns = xp.arange(self.n, device=backend.device_of(a))
        length = xp.sqrt(xp.where(self.norms > 0, self.norms, xp.ones_like(self.norms)))
        lowest, products = xp.ones_like(field), 0
        for r in range(int(chosen.shape[1])):
            ones = xp.astype(columns[None, :] == chosen[:, r : r + 1], self._rhs.dtype)
            closeness = xp.abs(self._phi.gram(ones)) / length
            beside = xp.argmax(closeness * (1 - xp.abs(ones)), axis=1)
            pair = xp.stack([chosen[:, r], beside])
            rows = xp.astype(columns[None, None, :] == pair[:, :, None], self._rhs.dtype)
            found = solve(
                ShiftedGram(self._copies, 1.0, xp.reshape(a, (-1,))), xp.reshape(rows, (2, -1)),
                preconditioner=self._preconditioner(xp.reshape(a, (-1,))), rtol=SPOT_RTOL,
                max_steps=self._options.max_cg_steps,
            )  # fmt: skip
            variance = backend.real(xp.sum(xp.reshape(found.x, rows.shape) * rows, axis=2))
            own = xp.sum(xp.abs(rows) * a, axis=2)
            expected = xp.sum(xp.abs(rows) * self.norms, axis=2) * column(field, a)[:, 0]
            ratio = xp.min((1 / variance - own) / expected, axis=0)
            ratio = xp.where(counts[:, r] > 0, ratio, xp.ones_like(ratio))
            lowest = xp.minimum(lowest, xp.astype(ratio, lowest.dtype))
            products += 2 * self.number * (found.rows + 1)
        return lowest, products

    def _preconditioner(self, alpha: Array) -> Array:
        return backend.namespace(alpha).tile(self.norms, (self.number,)) + alpha


def column(of_problems: Array, like: Array) -> Array:
    """Return numbers of problems (P,) as a column (P, 1) in the precision of ``like``."""
    xp = backend.namespace(like)
    return xp.astype(of_problems, backend.real_dtype(like.dtype, xp))[:, None]


def fields(a: Array, theta: Array, trace: Array) -> Array:
    """Return for every problem the c in [0, 1] with Σ_j a/(a + cθ) = trace, (P,).

    As :func:`cofem.learning.moments.mean_field.field_factor` finds it for one.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([[1.0, 3.0], [1.0, 3.0]])
    >>> fields(a, np.ones(2), np.array([1.25, 1.75])).round(4)
    array([1.    , 0.2214])
    """
    xp = backend.namespace(a)
    low, high = xp.full_like(trace, LOWEST), xp.zeros_like(trace)
    t, settled = xp.zeros_like(trace), trace != trace
    for step in range(MOST_STEPS):
        below = column(xp.exp(t), a) * theta
        h, rest = a / (a + below), below / (a + below)
        excess, slope = _sums(h) - trace, _sums(h * rest)
        settled = settled | ((t == 0) & (excess >= 0))
        low, high = xp.where(excess > 0, t, low), xp.where(excess > 0, high, t)
        newton = t + excess / xp.where(slope > 0, slope, xp.ones_like(slope))
        inside = (slope > 0) & (low < newton) & (newton < high)
        following = xp.where(settled, t, xp.where(inside, newton, (low + high) / 2))
        settled = settled | (inside & (xp.abs(following - t) <= SETTLED))
        t = following
        if step % LOOK == LOOK - 1 and bool(xp.all(settled)):
            break
    return xp.exp(xp.where(trace >= a.shape[1], xp.full_like(t, LOWEST), t))


def _sums(x: Array) -> Array:
    xp = backend.namespace(x)
    found: Array = xp.sum(xp.astype(x, xp.float64), axis=1)
    return found
