"""The result of a fit: the whole posterior, without its covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cofem import backend
from cofem.backend import Array
from cofem.learning.sites.marginals import Marginals
from cofem.learning.sites.rectified import clipped_moments, probability_of_zero
from cofem.learning.supports.draws import Draws
from cofem.model.model import Task
from cofem.operators import LinearOperator
from cofem.result import intervals, operations
from cofem.result.exchange import Exchange


@dataclass(frozen=True, eq=False)
class Posterior(Exchange):
    """N(μ, Σ) of z given y, or what becomes of it if z ≥ 0, and how it was found.

    Made by :func:`cofem.fit` and :func:`cofem.posterior`. Arrays are of the caller's
    own kind and have the shape of z: (D,), or (L, D) for L joint tasks.

    Attributes
    ----------
    gaussian_mean, gaussian_variance : array
        μ and the diagonal of Σ; under "ard" those without z ≥ 0.
    variance_error : array
        Standard error of ``gaussian_variance``; zeros where it is exact.
    precision : array (D,)
        α, the prior precision of every coordinate; of every row of R, (M,), where a
        sparsifier R was given.
    noise_precision : float or ndarray (L,)
        β.
    log_evidence, log_evidence_error : float
        log p(y | α, β) and its standard error. Under the learned prior log p(y) given its
        weights and β, as expectation propagation has it; NaN where it was sampled: chains visit
        sets by how probable they are beside each other, and the constant cancels.
    history : dict of lists
        iteration, change, log_evidence, cg_steps, products, seconds. Under the learned prior the
        log evidence is known at the end only, and NaN before.
    converged, message
        Whether the fit converged, and how it ended, in words.
    method, options
        The name of the method that ran, and its dataclass.
    settings : dict
        The other arguments of the call, as given; an array by its shape.
    intercept, intercept_std : float or ndarray (L,), or None
        Mean and standard deviation of the constant, where the fit had one.
    prior : {"mixture", "ard"}
        The prior that ran: learned, or one precision for every coordinate.
    marginals : Marginals, Draws or None
        The distribution of every coordinate under the learned or given half-normal priors.
    pull, site_precision : array or None
        b and a of the sites exp(−a u²/2 + b u) of the learned prior, in the shape of z;
        ``precision`` is a of the first task.

    Examples
    --------
    >>> import numpy as np, cofem
    >>> post = cofem.fit(np.eye(4), np.array([0.0, 3.0, 0.0, -2.0]), noise_precision=1e4)
    >>> np.flatnonzero(post.support())
    array([1, 3])
    >>> low, high = post.interval(0.95)
    >>> bool(low[1] < 3.0 < high[1])
    True
    """

    gaussian_mean: Array
    gaussian_variance: Array
    variance_error: Array
    precision: Array
    noise_precision: Any
    log_evidence: float
    log_evidence_error: float
    history: dict[str, list[float]]
    converged: bool
    message: str
    method: str
    options: Any
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    nonnegative: bool = False
    prior: str = "ard"
    intercept: Any = None
    intercept_std: Any = None
    marginals: Marginals | Draws | None = field(default=None, repr=False)
    pull: Any = field(default=None, repr=False)
    site_precision: Any = field(default=None, repr=False)
    tasks: tuple[Task, ...] = field(default=(), repr=False)
    sparsifier: LinearOperator | None = field(default=None, repr=False)

    # -- moments ---------------------------------------------------------------

    @property
    def mean(self) -> Array:
        """The posterior mean, in the shape of z.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.array([1.0, 2.0]), precision=np.ones(2), noise_precision=3.0)
        >>> post.mean, post.variance, post.std
        (array([0.75, 1.5 ]), array([0.25, 0.25]), array([0.5, 0.5]))
        """
        if self.marginals is not None:
            return self.marginals.mean
        if not self.nonnegative:
            return self.gaussian_mean
        return clipped_moments(self.gaussian_mean, self.gaussian_variance)[0]

    @property
    def variance(self) -> Array:
        """The posterior variance of every coordinate (E|z − μ|² if complex)."""
        if self.marginals is not None:
            return self.marginals.variance
        if not self.nonnegative:
            return self.gaussian_variance
        return clipped_moments(self.gaussian_mean, self.gaussian_variance)[1]

    @property
    def probability(self) -> Array | None:
        """P(z_j ≠ 0) under the learned prior, in the shape of z; None under "ard".

        Examples
        --------
        >>> import numpy as np, cofem
        >>> rng = np.random.default_rng(0)
        >>> phi = rng.normal(size=(50, 100))
        >>> z = np.zeros(100); z[[5, 40]] = [1.0, -2.0]
        >>> post = cofem.fit(phi, phi @ z + 0.1 * rng.normal(size=50))
        >>> np.flatnonzero(post.probability > 0.9)
        array([ 5, 40])
        """
        return self.marginals.probability if self.marginals and self.prior == "mixture" else None

    @property
    def std(self) -> Array:
        """The square root of the variance."""
        return backend.namespace(self.variance).sqrt(self.variance)

    @property
    def mode(self) -> Array:
        """μ, the most probable z; if z ≥ 0 the positive part of μ, as in the paper."""
        if not self.nonnegative:
            return self.gaussian_mean
        return backend.namespace(self.gaussian_mean).clip(self.gaussian_mean, min=0.0)

    @property
    def probability_of_zero(self) -> Array:
        """P(z_j = 0) of a non-negative model.

        That of its atom; by the paper's rule ("ard") the mass ½ erfc(μ_j/√(2Σ_jj)) below zero.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.array([0.0, 9.0]), precision=np.ones(2), noise_precision=3.0,
        ...     nonnegative=True, method=cofem.CoFEM.paper())
        >>> post.probability_of_zero.round(3)
        array([0.5, 0. ])
        """
        if not self.nonnegative:
            raise ValueError("probability_of_zero needs a fit with nonnegative=True")
        if self.marginals is not None:
            return 1 - self.marginals.probability
        return probability_of_zero(self.gaussian_mean, self.gaussian_variance)

    def filtered_mode(self, q: float = 0.05) -> Array:
        """Return the most probable z ≥ 0 on the coordinates with P(z_j = 0) < q.

        The others are zero. A non-negative ridge regression with the model's own prior
        as the ridge, solved exactly for autoregressive phi and by conjugate gradients
        for any other (the paper's Appendix C).

        Examples
        --------
        >>> import numpy as np, cofem
        >>> phi = cofem.operators.Autoregressive((0.9,), n=200)
        >>> z = np.zeros(200); z[[20, 90]] = [1.0, 2.0]
        >>> y = phi.forward(z) + 0.02 * np.random.default_rng(0).normal(size=200)
        >>> post = cofem.fit(phi, y, noise_precision=2500.0, nonnegative=True, prior="ard")
        >>> kept = post.filtered_mode(q=1e-6)
        >>> np.flatnonzero(kept), kept[[20, 90]].round(1)
        (array([20, 90]), array([1., 2.]))
        """
        return operations.filtered_modes(self, q)

    # -- intervals and draws ---------------------------------------------------

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return (low, high): every coordinate lies between them with that probability.

        Given half-normal priors the shortest interval, else equal probability below and above.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(1), np.ones(1), precision=np.ones(1), noise_precision=3.0)
        >>> low, high = post.interval(0.95)
        >>> low.round(2), high.round(2)
        (array([-0.23]), array([1.73]))
        """
        return intervals.interval_of(self, level)

    def support(self, level: float = 0.95) -> Array:
        """Return the mask of coordinates that are not zero.

        Under the learned prior: as many, by falling probability, as keep the expected share of
        false ones within 1 − ``level``. Under "ard": those whose interval excludes zero
        (complex: whose |μ| exceeds the radius that holds a draw of that probability).

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.array([0.1, 5.0]), precision=np.ones(2), noise_precision=3.0)
        >>> post.support()
        array([False,  True])
        """
        return intervals.support_of(self, level)

    def sample(self, n: int, seed: int | None = None) -> Array:
        """Draw ``n`` samples, shape (n, *shape of z).

        Each is a solve with perturbed data and prior. Under the learned prior the marginals are
        those of the posterior, and coordinates vary together as in the Gaussian posterior.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=3.0)
        >>> post.sample(1000, seed=0).std(axis=0).round(1)
        array([0.5, 0.5])
        """
        return operations.draw(self, n, seed)

    # -- maps of z -------------------------------------------------------------

    def variance_of(self, linear_map: Any, *, n_samples: int = 256, seed: int = 0) -> Array:
        """Return the posterior variance of every entry of ``linear_map`` z.

        Shape (M,), or (L, M) for L joint tasks, a row for each. Exact (to the solver's
        tolerance) for up to 256 rows or 1024 unknowns; otherwise from ``n_samples`` draws,
        with a relative error of √(2/n_samples).

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=3.0)
        >>> post.variance_of(np.array([[1.0, 1.0]])).round(6)
        array([0.5])
        """
        op = operations.checked_map(self, linear_map, "linear_map", "variance_of")
        return operations.map_variance(self, op, n_samples, seed)

    def predict(self, phi_new: Any, noise: bool = True) -> tuple[Array, Array]:
        """Return mean and standard deviation of ``phi_new`` z, noise included by default.

        Shapes (M,), or (L, M) for L joint tasks: ``phi_new`` is applied to each. The intercept,
        where there is one, and its correlation with z are in both. The noise is that of a row
        of weight one.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=3.0)
        >>> mean, std = post.predict(np.array([[1.0, -1.0]]), noise=False)
        >>> mean.round(6), (std**2).round(6)
        (array([0.]), array([0.5]))
        """
        op = operations.checked_map(self, phi_new, "phi_new", "predict")
        mean, variance = operations.prediction(self, op, noise=bool(noise))
        return mean, backend.namespace(variance).sqrt(variance)

    # -- files and display -----------------------------------------------------

    def save(self, path: Any) -> None:
        """Write everything but the operator to one .npz file, atomically."""
        from cofem.files import check_writable
        from cofem.result.storage import save_posterior

        check_writable(path, "path")
        save_posterior(self, path)

    def _repr_html_(self) -> str:
        """Return a picture and a table for the notebook."""
        from cofem.result.page import glance

        return glance(self)

    def __repr__(self) -> str:
        return operations.summary(self)
