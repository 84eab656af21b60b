"""From data to a posterior in one call."""

from cofem.fitting.calls import ConvergenceWarning, fit, posterior

__all__ = ["ConvergenceWarning", "fit", "posterior"]
