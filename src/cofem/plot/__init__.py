"""Pictures of a posterior and of the iterations that led to it.

Every function draws on axes it is given, or makes a figure of its own, and returns the
axes; none changes the backend or the style that the user has chosen.
"""

from cofem.plot.coordinates import errors, posterior
from cofem.plot.maps import support, traces, variance_map
from cofem.plot.progress import history

__all__ = ["errors", "history", "posterior", "support", "traces", "variance_map"]
