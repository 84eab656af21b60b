"""The estimator, with scikit-learn's conventions: attributes of the fit end with an underscore."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cofem.arguments import flag
from cofem.operators import as_operator
from cofem.result.posterior import Posterior
from cofem.sklearn import coefficients
from cofem.sklearn.convergence import ConvergenceWarning
from cofem.sklearn.design import Design, standardise
from cofem.sklearn.fits import fitted, freedom, without_samples
from cofem.sklearn.inputs import checked_data, is_operator, known_noise, weighted
from cofem.sklearn.predictive import evidence_elsewhere, observed_covariance, observed_variance
from cofem.sklearn.rotation import rotate
from cofem.sklearn.units import in_data_units


@final
class SparseBayesRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with sparse weights, error bars, and nothing to tune.

    Parameters
    ----------
    noise_precision : float or array (n_outputs,), optional
        β = 1/σ² of a sample of weight one. None: estimated.
    fit_intercept : bool
        Whether there is an intercept. Its prior is flat.
    nonnegative : bool
        Weights ≥ 0, by a rectified Gaussian posterior. The intercept is free.
    prior : {"auto", "mixture", "ard"}
        As for :func:`cofem.fit`: learned for all features together, or one precision for each, as
        ``ARDRegression`` has it. Several outputs whose noise differs are fitted with "ard".
    groups : array of int (n_features,), optional
        Features with equal labels are relevant together, as those of one category.
    method : str or method object
        As for :func:`cofem.fit`.
    max_iter : int
        The most iterations.
    tol : float
        As for :func:`cofem.fit`; 0: exactly ``max_iter``.
    random_state : int, RandomState or None
        Decides every random number.

    Attributes
    ----------
    coef_, coef_std_ : array (n_features,) or (n_outputs, n_features)
        Posterior mean and standard deviation of every weight, none left out. The
        deviation is inf for a feature that does not vary: the data say nothing about it.
    coef_probability_ : array like coef_, or None
        The probability that a weight is not zero; None under "ard".
    prior_ : str
        The prior that ran, "mixture" or "ard".
    precision_ : array like coef_
        α, the prior precision of every weight, learned; 0 for a feature that does not vary.
    intercept_ : float or array (n_outputs,)
        0.0 without intercept.
    intercept_std_ : float or array (n_outputs,)
        Its posterior standard deviation.
    noise_precision_ : float or array (n_outputs,)
        β; inf for an output that does not vary.
    relevance_ : array (n_features,)
        1 − α_j Σ_jj, from 0 (the prior decides this weight) to 1 (the data do), averaged
        over the outputs, which share α.
    scores_ : array (n_iter_,)
        The log evidence after every iteration; NaN where the method does not compute it.
    n_iter_ : int
        The EM iterations of the last fit.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of str
        Only if the columns of X have names.

    Notes
    -----
    ``sample_weight`` counts samples: a weight of 2 is the sample twice. Several outputs
    share which features matter, each in units of its own spread.

    Examples
    --------
    >>> import numpy as np
    >>> from cofem.sklearn import SparseBayesRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 20))
    >>> y = 3 + 2 * X[:, 4] - X[:, 11] + 0.1 * rng.normal(size=100)
    >>> model = SparseBayesRegressor().fit(X, y)
    >>> np.flatnonzero(np.abs(model.coef_) > 4 * model.coef_std_)
    array([ 4, 11])
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> bool(np.all(np.abs(mean - y[:3]) < 4 * std))
    True
    """

    def __init__(
        self,
        *,
        noise_precision: Any = None,
        fit_intercept: bool = True,
        nonnegative: bool = False,
        prior: str = "auto",
        groups: Any = None,
        method: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = 0,
    ) -> None:
        self.noise_precision = noise_precision
        self.fit_intercept = fit_intercept
        self.nonnegative = nonnegative
        self.prior = prior
        self.groups = groups
        self.method = method
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseBayesRegressor:
        """Fit the weights.

        Parameters
        ----------
        X : array, SciPy sparse array or operator, (n_samples, n_features)
            A sparse array stays sparse; an operator is only multiplied.
        y : array (n_samples,) or (n_samples, n_outputs)
        sample_weight : array (n_samples,), optional
            How often every sample counts.
        """
        flag("fit_intercept", self.fit_intercept)
        X, y = checked_data(self, X, y)
        X, y, weights = weighted(X, y, sample_weight, 1 + bool(self.fit_intercept))
        self._one_output = y.ndim == 1
        Y = np.atleast_2d(y.T)
        known = known_noise(self.noise_precision, len(Y))
        design = standardise(X, Y, weights, bool(self.fit_intercept))
        design = rotate(design) or design
        names = ("nonnegative", "prior", "groups", "method", "max_iter", "tol")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        post = fitted(design, known, seed=seed, **{name: getattr(self, name) for name in names})
        self._keep(design, post)
        if not post.converged and self.tol > 0:
            warnings.warn(post.message, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict, with error bars on request.

        Parameters
        ----------
        X : array, SciPy sparse array or operator, (n_samples, n_features)
        return_std : bool
            Also return the standard deviation of a new observation of weight one:
            that of the prediction and the noise together.
        return_cov : bool
            Instead, return how new observations vary together.

        Returns
        -------
        mean : array (n_samples,) or (n_samples, n_outputs)
        std : array of the same shape, if asked for
        cov : array (n_samples, n_samples) or (n_samples, n_samples, n_outputs), if asked for
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov: ask for one of them")
        if is_operator(X):
            X = as_operator(X, "X")
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but SparseBayesRegressor is expecting "
                    f"{self.n_features_in_} features as input"
                )
            mean = X.forward(self.coef_).T + self.intercept_
        else:
            X = validate_data(self, X, reset=False, accept_sparse="csr")
            mean = X @ self.coef_.T + self.intercept_
        if not return_std and not return_cov:
            return mean
        outputs = range(len(self._beta))
        if return_std:
            spread = np.stack([np.sqrt(observed_variance(self, X, i)) for i in outputs], axis=-1)
        else:
            spread = np.stack([observed_covariance(self, X, i) for i in outputs], axis=-1)
        return mean, spread[..., 0] if self._one_output else spread

    def sample_coef(
        self, n_samples: int = 100, random_state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw weights and intercepts from the posterior.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        coef : array (n_samples, n_features) or (n_samples, n_outputs, n_features)
        intercept : array (n_samples,) or (n_samples, n_outputs)

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(50, 3))
        >>> y = 1 + X[:, 0] + 0.1 * rng.normal(size=50)
        >>> coef, intercept = SparseBayesRegressor().fit(X, y).sample_coef(1000, random_state=0)
        >>> coef.mean(axis=0).round(1) + 0.0, round(float(intercept.mean()), 1)
        (array([1., 0., 0.]), 1.0)
        """
        check_is_fitted(self)
        return coefficients.drawn(self, n_samples, random_state)

    def coef_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), each like ``coef_``: a weight lies between with that probability.

        From −∞ to ∞ for a feature that does not vary.
        """
        check_is_fitted(self)
        return coefficients.interval(self, level)

    def coef_support(self, level: float = 0.95) -> np.ndarray:
        """Return the mask, like ``coef_``, of weights that are not zero.

        As :meth:`cofem.Posterior.support`: under the learned prior the expected share of false
        ones is at most 1 − ``level``; under "ard" the interval excludes zero.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(50, 3))
        >>> model = SparseBayesRegressor().fit(X, 1 + X[:, 0] + 0.1 * rng.normal(size=50))
        >>> model.coef_support()
        array([ True, False, False])
        >>> low, high = model.coef_interval(0.95)
        >>> bool(low[0] < 1 < high[0])
        True
        """
        check_is_fitted(self)
        return coefficients.support(self, level)

    # -- results ---------------------------------------------------------------

    def _keep(self, design: Design, post: Posterior) -> None:
        """Set the attributes, in the units of the data."""
        found, dtype = in_data_units(design, post), design.y.dtype
        intercept, beta, varies = found.intercept, found.noise_precision, design.inverse_scale > 0
        self.coef_, self.coef_std_ = found.coef.astype(dtype), found.coef_std.astype(dtype)
        self.precision_ = found.precision.astype(dtype)
        self.intercept_: Any = intercept
        self.noise_precision_: Any = beta
        self.relevance_ = np.where(varies, np.clip(np.mean(freedom(post), axis=0), 0, 1), 0.0)
        self.scores_ = np.asarray(post.history["log_evidence"]) + evidence_elsewhere(design, post)
        self.n_iter_ = len(post.history["iteration"])
        self._design, self._post, self._beta = design, without_samples(design, post), beta
        self.prior_ = post.prior
        self.coef_probability_: Any = post.probability
        origin = np.zeros((1, len(varies)))
        deviation = [
            np.sqrt(observed_variance(self, origin, i, noise=False))[0] for i in range(len(beta))
        ]
        self.intercept_std_: Any = np.asarray(deviation) * bool(self.fit_intercept)
        if self._one_output:
            self.coef_, self.coef_std_ = self.coef_[0], self.coef_std_[0]
            self.precision_ = self.precision_[0]
            self.intercept_, self.noise_precision_ = float(intercept[0]), float(beta[0])
            self.intercept_std_ = float(self.intercept_std_[0])
            if self.coef_probability_ is not None:
                self.coef_probability_ = self.coef_probability_[0]
