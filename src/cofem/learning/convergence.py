"""Warnings of fits and linear systems that did not converge."""

from __future__ import annotations


class ConvergenceWarning(UserWarning):
    """Something was not solved to its tolerance; the message says what to do.

    Examples
    --------
    >>> import warnings, cofem
    >>> from cofem import simulate
    >>> problem = simulate.dct(D=300, seed=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     post = cofem.fit(problem.phi, problem.y, noise_precision=1e4, max_iter=2)
    >>> caught[0].category.__name__, post.converged
    ('ConvergenceWarning', False)
    """


class DivergenceWarning(ConvergenceWarning):
    """The iterations diverged; the result is that of the last iteration that was sound.

    Examples
    --------
    >>> issubclass(DivergenceWarning, ConvergenceWarning)
    True
    """
