"""The linear systems of P problems with one Φ, solved as one, and what they say of each.

Each problem is in units in which its E-steps have the noise precision one, so the matrix of
problem p is ΦᴴΦ + diag(a_p), and all of them together are one matrix with P blocks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.covariance_free import ROUNDINGS
from cofem.learning.moments.gaussian import Moments
from cofem.learning.moments.mean_field import Cavities
from cofem.learning.moments.spot_check import looked_at, lowest_ratios
from cofem.many.copies import Copies
from cofem.model.methods import CoFEM
from cofem.model.model import Model, Task, Tie
from cofem.operators import LinearOperator
from cofem.solvers.probes import ExtraSystems, estimate_diagonal
from cofem.solvers.systems import ShiftedGram
from cofem.solvers.verdicts import refuse_indefinite

# A residual of all problems together may be that of a few of them: so many times smaller, a probe's
# is within its tolerance in a problem of every hundred. (As loose as for one problem, some means
# were off by a third of their error.)
TIGHTER = 10.0


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
        self.model = Model((Task(phi, Y, 1.0),), Tie())
        self.Y, self.number, self.n = Y, int(Y.shape[0]), int(phi.shape[1])
        self.norms = phi.column_norms_squared(Y)
        self._rhs = xp.astype(phi.adjoint(Y), Y.dtype)
        self._copies = Copies(phi, self.number)
        self._cavities = Cavities(self.norms, 1.0)
        self._eps = float(xp.finfo(Y.dtype).eps)
        self._tighter = min(self.number**0.5, TIGHTER)

    def only(self, kept: Array) -> Systems:
        """Return the systems of some of the problems, given by their numbers."""
        Y = backend.namespace(self.Y).take(self.Y, kept, axis=0)
        other = Systems(self._phi, Y, self._options, self._seed)
        other._cavities = self._cavities.of_problems(kept)
        return other

    def moments(
        self, a: Array, start: Array | None, iteration: int, last: bool, pull: Array | None = None
    ) -> Moments:
        """Solve for the means and for probes under sites (P, D) and pulls (1, P, D)."""
        xp, options = backend.namespace(a), self._options
        alpha = xp.reshape(a, (-1,))
        rhs = self._rhs if pull is None else self._rhs + pull
        beside = ExtraSystems(
            xp.reshape(rhs, (1, -1)), None if start is None else xp.reshape(start, (1, -1)),
            max(options.mean_rtol, ROUNDINGS * self._eps), options.mean_balance,
        )  # fmt: skip
        like = xp.reshape(self._rhs, (-1,))
        found = estimate_diagonal(
            ShiftedGram(self._copies, 1.0, alpha), xp.sqrt(alpha), like=like,
            n_probes=options.n_probes, seed=backend.seed_from(self._seed, 0, iteration + 1),
            preconditioner=self._preconditioner(alpha),
            rtol=max(options.probe_rtol / self._tighter, ROUNDINGS * self._eps),
            max_steps=options.max_cg_steps,
            block=options.block or backend.rows_at_once(like, int(like.shape[0])),
            probes=options.probes,
            extra=beside,
        )  # fmt: skip
        mean, _, status = found.beside()
        refuse_indefinite(status, found.status)
        shape = (self.number, self.n)
        h, spread = xp.reshape(found.diagonal, shape), xp.reshape(found.variance, shape)
        cavity, departs = None, math.nan
        if pull is not None:
            cavity, sums = self._cavities.update(replace(found, diagonal=h, variance=spread), a)
            departs = self._cavities.departed(sums, iteration)
        mean = xp.reshape(mean, (1, *shape))
        return Moments(
            mean=mean, variance=None, sparse_mean=mean, cavity=cavity, departs=departs,
            freedom=self.n - xp.sum(h, axis=1, dtype=xp.float64),
            cg_steps=int(found.steps.max()), products=2 * found.rows * self.number,
        )  # fmt: skip

    def lowest_ratios(self, a: Array, field: Array, probability: Array) -> tuple[np.ndarray, int]:
        """Return the lowest exact c_j over the field's among a few coordinates, (P,).

        See :func:`cofem.learning.moments.spot_check.lowest_ratios`; also the products that took.

        Parameters
        ----------
        a, probability : array (P, D)
            The precisions of the sites, and P(z_j ≠ 0).
        field : array (P,)
            The one number of the cavities.
        """
        return lowest_ratios(
            self._phi,
            lambda alpha: (ShiftedGram(self._copies, 1.0, alpha), self._preconditioner(alpha)), a,
            backend.column(field, a) * self.norms, looked_at(backend.to_numpy(probability)),
            self._rhs[0, ...],
        )  # fmt: skip

    def _preconditioner(self, alpha: Array) -> Array:
        return backend.namespace(alpha).tile(self.norms, (self.number,)) + alpha
