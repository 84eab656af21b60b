"""The noise precision from the data, when the user does not know it.

Maximising the evidence over β with one free α for every coordinate fails for N ≤ D: it
rises for ever, because enough coordinates explain any noise. Two searches avoid that.

- :mod:`~cofem.inference.noise_climb` lets it rise, and sees on the way up where to stop. It
  finds the signal almost always, and β roughly.
- :mod:`~cofem.inference.noise_mixture` gives all coordinates one prior of two numbers, whose
  evidence has a maximum. It finds β well, if it begins near enough.

For one task that is sparse in its own coordinates, the second begins where the first ended.
Joint tasks, neighbours that share their precision, and what is sparse only behind an R have
the first alone. See ``docs/noise.md``.
"""

from __future__ import annotations

from cofem.backend import Array
from cofem.inference import noise_climb, noise_mixture
from cofem.inference.model import Model
from cofem.inference.noise_climb import NoiseEstimate
from cofem.inference.noise_mixture import CovarianceFreeMaker, End
from cofem.inference.noise_walker import EStepMaker, squared_rows

# A mixture that ends so near to the climb needs no second start.
AGREE = 1.5
# One so many times below the climb has lost signal on the way.
LOST = 10.0


def estimate_noise_precision(
    model: Model, make: EStepMaker, make_covariance_free: CovarianceFreeMaker, alpha: Array
) -> NoiseEstimate:
    """Return the noise precision of every task.

    Parameters
    ----------
    model : Model
        Its noise precisions are ignored.
    make : function
        Model → the E-steps of the method that will fit it.
    make_covariance_free : function
        Model → CoFEM's E-steps, whatever the method.
    alpha : array (D,)
        Where EM starts.
    """
    (task, *others), tie = model.tasks, model.tie
    plain = not others and model.sparsifier is None and tie.coupling is None
    if not plain or float(squared_rows(task.y)) == 0.0:
        return noise_climb.climb(model, make, alpha)
    n_data, n = task.operator.shape
    ends = []
    if n_data >= n:  # nothing can hide, and there is no need to climb
        ends.append(noise_mixture.from_noise_alone(model, make_covariance_free))
        if ends[0].settled:
            return NoiseEstimate([ends[0].noise_precision], [], ends[0].products)
    found = noise_climb.climb(model, make, alpha)
    (rough,) = found.noise_precisions
    ends.append(noise_mixture.refined(model, make_covariance_free, found.alpha, rough))
    near = 1 / AGREE < ends[-1].noise_precision / rough < AGREE
    if len(ends) == 1 and not (ends[-1].settled and near):
        ends.append(noise_mixture.from_noise_alone(model, make_covariance_free))
    products = found.products + sum(end.products for end in ends)
    return NoiseEstimate([_believed(ends, rough)], found.branches, products)


def _believed(ends: list[End], rough: float) -> float:
    """Return the largest: where two ends differ, the other one has missed signal."""
    settled = [end.noise_precision for end in ends if end.settled]
    # An end that never settled proves little.
    best = max(settled or [min(end.noise_precision, LOST * rough) for end in ends])
    return best if best > rough / LOST else rough
