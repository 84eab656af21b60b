"""Many independent problems with one Φ: on all cores, on a cluster, and resumable."""

from cofem.many.result import ManyPosteriors
from cofem.many.running import fit_many

__all__ = ["ManyPosteriors", "fit_many"]
