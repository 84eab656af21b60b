"""The warning of a fit that did not converge."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _LearnWarning

from cofem import fitting


class ConvergenceWarning(fitting.ConvergenceWarning, _LearnWarning):  # type: ignore[misc]
    """A warning of both libraries, so that the filter of either catches it.

    Examples
    --------
    >>> import cofem, sklearn.exceptions
    >>> issubclass(ConvergenceWarning, cofem.ConvergenceWarning)
    True
    >>> issubclass(ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    True
    """
