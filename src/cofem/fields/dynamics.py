"""An optimizer for PySINDy: which terms act, how strongly, and how sure that is."""

from __future__ import annotations

import math
import numbers
from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from cofem.sklearn import SparseBayesRegressor


@final
class SparseBayesOptimizer(BaseEstimator):  # type: ignore[misc]
    """Sparse Bayesian regression in the place of PySINDy's ``STLSQ``, without a threshold.

    Every equation is a :class:`~cofem.sklearn.SparseBayesRegressor` of its own, with its own
    noise. Coefficients outside the support are exactly zero, as PySINDy expects.

    Parameters
    ----------
    level : float
        Of the support and the intervals: at most 1 − level of the terms are false, on average.
    independent : float
        How many independent samples a row is worth, from 0 to 1. Velocities that were smoothed
        are not independent: a polynomial of degree p over w samples leaves (p + 1)/w of each.
        With 1, errors of the smoothing are found as terms.
    prior, max_iter, tol, random_state
        As for :class:`~cofem.sklearn.SparseBayesRegressor`.

    Attributes
    ----------
    coef_ : array (n_equations, n_terms)
        The posterior mean, zero outside the support.
    coef_std_, coef_low_, coef_high_ : array like coef_
        Standard deviation and interval, of all terms.
    coef_probability_ : array like coef_
        P(coefficient ≠ 0), NaN in an equation whose prior was "ard".
    ind_ : array of bool, like coef_
        The support.
    models_ : list of SparseBayesRegressor
        One for every equation.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> velocity = np.stack([-x[:, 0], 2 * x[:, 1]], axis=1)
    >>> velocity += 0.1 * np.random.default_rng(1).normal(size=velocity.shape)
    >>> found = SparseBayesOptimizer().fit(x, velocity)
    >>> found.coef_.round(1) + 0.0
    array([[-1.,  0.,  0.,  0.],
           [ 0.,  2.,  0.,  0.]])

    In PySINDy: ``pysindy.SINDy(optimizer=SparseBayesOptimizer(independent=5 / 31))``.
    """

    def __init__(
        self,
        *,
        level: float = 0.95,
        independent: float = 1.0,
        prior: str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = 0,
    ) -> None:
        self.level = level
        self.independent = independent
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> SparseBayesOptimizer:
        """Fit every equation.

        Parameters
        ----------
        x : array (n_samples, n_terms)
            The candidate terms.
        y : array (n_samples,) or (n_samples, n_equations)
            The velocities. Rows with NaN, as finite differences leave them at the ends, are
            left out.
        sample_weight : array (n_samples,), optional
            How often every sample counts, before ``independent``.
        """
        share: Any = self.independent
        if not (isinstance(share, numbers.Real) and 0 < float(share) <= 1):
            raise ValueError(f"independent must be above 0 and at most 1, got {share!r}")
        x = check_array(np.asarray(x), ensure_all_finite="allow-nan", input_name="x")
        y = check_array(np.asarray(y), ensure_2d=False, ensure_all_finite="allow-nan")
        y = y.reshape(len(y), -1)
        weight = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight)
        whole = np.all(np.isfinite(x), axis=1) & np.all(np.isfinite(y), axis=1)
        x, y = x[whole], y[whole]
        weight = float(share) * np.broadcast_to(weight, whole.shape)[whole]
        names = ("prior", "max_iter", "tol", "random_state")
        options = {name: getattr(self, name) for name in names}
        self.models_: list[Any] = [
            SparseBayesRegressor(fit_intercept=False, **options).fit(x, column, weight)
            for column in y.T
        ]
        self._keep()
        return self

    def _keep(self) -> None:
        """Set what PySINDy reads, and the error bars."""
        self.ind_ = np.stack([m.coef_support(self.level) for m in self.models_])
        self.coef_ = np.where(self.ind_, np.stack([m.coef_ for m in self.models_]), 0.0)
        self.coef_std_ = np.stack([m.coef_std_ for m in self.models_])
        edges = [m.coef_interval(self.level) for m in self.models_]
        self.coef_low_, self.coef_high_ = (np.stack(e) for e in zip(*edges, strict=True))
        self.coef_probability_ = np.stack(
            [
                np.full(m.coef_.shape, math.nan)
                if m.coef_probability_ is None
                else m.coef_probability_
                for m in self.models_
            ]
        )
        self.intercept_ = 0.0  # a constant is a term of the library
        self.history_ = [self.coef_]

    def predict(self, x: Any) -> np.ndarray:
        """Return the velocities, (n_samples, n_equations)."""
        check_is_fitted(self)
        return np.asarray(np.asarray(x) @ self.coef_.T)

    @property
    def complexity(self) -> int:
        """The number of terms in all equations."""
        check_is_fitted(self)
        return int(np.count_nonzero(self.coef_))
