"""How short a description of the data a sparse fit gives: which fit is believed.

Two numbers have to be weighed against each other: how small the residual is, and how many
coordinates that took. Description length weighs them without knowing the noise
(Rissanen 2000): the nats to write down the residual, the k coefficients, and which of the
D coordinates they belong to. A fit that has noise among its coordinates gains less from
the residual than it pays for naming them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import gammaln

# Coefficients cost the log of their power. Of one common power, where they are alike; each
# of its own, where it were known. It is learned: half of the difference is taken.
OF_ITS_OWN = 0.5
# No fit counts as using more of the data than this.
LARGEST_SHARE = 0.98


@dataclass(frozen=True)
class SparseFit:
    """The numbers that are left of a sparse fit, all counted in real numbers.

    Attributes
    ----------
    left_at : float
        The noise precision where this fit's own search began.
    noise_precision : float
        What it found.
    residual, energy : float
        ‖y − Φμ‖² and ‖y‖².
    freedom : float
        k, the directions that the posterior determines.
    spread : float
        log of the arithmetic over the geometric mean of the power of the coefficients.
    n_data : int
        N.
    coordinates : int
        How many prior precisions there are to choose from.
    per_coordinate : float
        Numbers that one precision stands for: tasks, members of a group, and two for
        a complex one.
    weights : tuple of float
        How much larger than ``noise_precision`` that of each task is; residual and energy
        are sums over the tasks with such weights. Their geometric mean is one.

    Examples
    --------
    Of 100 data with power 100, ten coordinates that leave a residual of 1 are believed;
    ten that leave 60 are not, they are noise:

    >>> def fit(residual, freedom):
    ...     return SparseFit(1.0, 1.0, residual, 100.0, freedom, 0.0, 100, 400, 1.0)
    >>> nothing = fit(100.0, 0.0).description_length
    >>> fit(1.0, 10.0).description_length < nothing < fit(60.0, 10.0).description_length
    True
    """

    left_at: float
    noise_precision: float
    residual: float
    energy: float
    freedom: float
    spread: float
    n_data: int
    coordinates: int
    per_coordinate: float
    weights: tuple[float, ...] = (1.0,)

    @property
    def description_length(self) -> float:
        """Twice the nats that describe y: residual, coefficients, which coordinates."""
        n = self.n_data
        k = min(max(self.freedom, 1e-6), LARGEST_SHARE * n)
        noise = max(self.residual, 1e-20 * self.energy) / (n - k)
        # k coefficients explain at least what k numbers explain of pure noise.
        signal = max((self.energy - self.residual) / k, noise)
        power = math.log(signal) - OF_ITS_OWN * self.spread
        chosen = min(k / self.per_coordinate, float(self.coordinates))
        return (n - k) * math.log(noise) + k * power + 2 * _log_binomial(self.coordinates, chosen)


def excess(fits: Sequence[SparseFit]) -> list[float]:
    """Return how much longer than the shortest each description is, in units of √N.

    The logarithm of a sum of N squares is known to about √(2/N), and so a description
    length to about √N.

    Examples
    --------
    >>> nothing = SparseFit(1.0, 1.0, 100.0, 100.0, 0.0, 0.0, 100, 400, 1.0)
    >>> excess([nothing, nothing])
    [0.0, 0.0]
    """
    lengths = [f.description_length for f in fits]
    return [(x - min(lengths)) / math.sqrt(f.n_data) for x, f in zip(lengths, fits, strict=True)]


def average_noise_precision(fits: Sequence[SparseFit], task: int = 0) -> float:
    """Average log β of a task over the fits, those with a short description above all.

    Examples
    --------
    >>> nothing = SparseFit(1.0, 1.0, 100.0, 100.0, 0.0, 0.0, 100, 400, 1.0)
    >>> ten = SparseFit(8.0, 81.0, 1.0, 100.0, 10.0, 0.0, 100, 400, 1.0)
    >>> round(average_noise_precision([nothing, ten]), 3)
    81.0
    """
    weights = [math.exp(-x) for x in excess(fits)]
    logs = [math.log(f.noise_precision * f.weights[task]) for f in fits]
    total = math.fsum(w * x for w, x in zip(weights, logs, strict=True))
    return math.exp(total / math.fsum(weights))


def _log_binomial(n: float, k: float) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
