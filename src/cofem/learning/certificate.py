"""Whether an end of expectation propagation can be believed, judged from the end itself.

If columns are coherent (a blur, near-duplicates, a leadfield), it may end at a wrong place, or not
end at all. Then its two means of a coordinate disagree, or nearly all of the data are used up, or
almost all coordinates count as non-zero although there are fewer data than these. Each of these is
enough to refuse the end. ``benchmarks/certificate.py`` measures how often the certificate is wrong.

An end may also be *crowded*: it uses more than can be recovered of the directions in which the
signal stands above the noise. Then several sets of non-zeros explain y equally well, and
expectation propagation is too sure of the one where it ended. One precision for each coordinate
would be even more sure, so a crowded end is not refused: other starts are tried instead.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.moments.covariance_free import CovarianceFreeEStep
from cofem.learning.moments.gaussian import EStep, MomentStep
from cofem.learning.moments.spot_check import looked_at
from cofem.learning.sites.matching import squared_lengths
from cofem.learning.sites.mixture import most_per_datum
from cofem.learning.sites.propagation import Propagation

# The largest root mean square difference of the two means, in error bars.
LARGEST_DISTANCE = 0.1
# The largest share of coordinates whose two means differ by more than a tenth of an error bar.
LARGEST_APART = 0.05
# The largest share of the data that the fit may use up.
LARGEST_USED = 0.9
# An end with more than DENSE non-zeros per datum is refused, unless a typical coordinate's
# precision, with all others unknown, is at least BARELY_SEEN of its precision with all others
# known.
DENSE, BARELY_SEEN = 0.5, 0.05
# If the slabs' weight is above this share of its limit (``MOST_PER_DATUM``), it was held back by
# it.
AT_LIMIT = 0.9
# Where one number is used for all cavities: the largest relative deviation that the probes may
# find.
LARGEST_DEPARTURE = 0.3
# The exact cavities of a few coordinates, and of those with the most similar columns, must be at
# least this share of that number.
LOWEST_RATIO = 0.12
# The noise precision counts as settled if log β moves by less than this.
LARGEST_MOVE = 0.05


class Certificate(enum.Enum):
    """The outcome; the value says why."""

    GIVEN = "certified"
    MOVING = "the noise precision was still changing"
    APART = "its two estimates of the coefficients differ"
    USED_UP = "it used nearly all of the data as free parameters"
    DENSE = "it has more non-zero coefficients than the data can determine"
    COHERENT = "the columns of phi are too coherent for so few probes"


def certify(rule: Propagation, esteps: Sequence[EStep]) -> tuple[Certificate, int]:
    """Judge where the rule has ended; return also the products that took."""
    slabs = float(np.sum(rule.shares.weights[1:])) if rule.shares is not None else 0.0
    refused = (why for why, there in grounds(rule, slabs, rule.typical) if there)
    verdict, products = next(refused, Certificate.GIVEN), 0
    for i, estep in enumerate(esteps):
        if verdict is Certificate.GIVEN and isinstance(estep, CovarianceFreeEStep):
            lowest, spent = _spot_check(rule, i, estep)
            products += spent
            if lowest < LOWEST_RATIO:
                verdict = Certificate.COHERENT
    return verdict, products


def grounds(rule: Propagation, slabs: Any, typical: Any) -> list[tuple[Certificate, Any]]:
    """Return the grounds on which an end is refused, and whether each of them is there.

    Without the spot check. With P problems they are boolean arrays (P,).

    Parameters
    ----------
    rule : Propagation
        ``rule.look`` says how it stands at the end.
    slabs : float, or array (P,)
        The weight that the data ask for beside the spike's.
    typical : float, or array (P,)
        How precisely a coordinate is seen.
    """
    look, most = rule.look, rule.prior.most
    move, distance = abs(look.log_move), look.distance
    per_datum = slabs * rule.model.n_precisions * len(rule.model.tasks) / rule.n_data
    dense = (per_datum > DENSE) & (typical < BARELY_SEEN)
    if most < 1:
        dense = dense | (slabs > AT_LIMIT * most)
    # What is not a number is no small number: it differs from itself.
    moving = (move > LARGEST_MOVE) | (move != move)
    apart = (distance > LARGEST_DISTANCE) | (distance != distance) | (look.apart > LARGEST_APART)
    return [
        (Certificate.USED_UP, look.used > LARGEST_USED),
        (Certificate.MOVING, moving),
        (Certificate.APART, apart),
        (Certificate.COHERENT, look.departs > LARGEST_DEPARTURE),
        (Certificate.DENSE, dense),
    ]


def is_crowded(rule: Propagation, estep: MomentStep[Array]) -> tuple[Any, int]:
    """Return whether an end is crowded, of P problems which are, and the products that took."""
    if not _line_holds(rule):
        return False, 0
    directions, products = directions_above_noise(rule, estep)
    line = most_per_datum(directions / rule.model.n_unknowns)
    return rule.look.used * rule.n_data > line * directions, products


def _line_holds(rule: Propagation) -> bool:
    """Whether the limit of what can be recovered is known: that of real numbers of any sign.

    Tasks and groups that share their zeros, complex numbers and known signs have higher limits.
    """
    model = rule.model
    shares = len(model.tasks) > 1 or model.tie.labels is not None
    free = not model.nonnegative and not backend.is_complex(model.like)
    return rule.n_data < model.n_unknowns and free and not shares and model.sparsifier is None


def directions_above_noise(rule: Propagation, estep: MomentStep[Array]) -> tuple[Any, int]:
    """Return in how many directions the signal stands above the noise, and the products it took.

    That is what a ridge determines which gives all coordinates the variance that explains the
    power of y beyond the noise. Where the singular values of Φ fall off it is far below N.
    """
    noise, model = rule.noises[0], rule.model
    power: Any = noise.energy * noise.ratio - noise.n_data  # in units of the noise
    of = backend.functions_of(power)
    # The noise's own power is known to one standard deviation.
    power = of.clip(power, min=math.sqrt(2.0 * noise.n_data))
    unit = squared_lengths(model.families[0], model, model.like) * model.families[0].noise_precision
    ridge = backend.column(model.n_unknowns / power, unit) * unit
    found = estep.moments(ridge, None, rule.iteration + 1, False)
    return backend.functions_of(found.freedom).clip(found.freedom, min=1.0), found.products


def _spot_check(rule: Propagation, i: int, estep: CovarianceFreeEStep) -> tuple[float, int]:
    """Return how far the one number is above the exact cavities of a few coordinates."""
    if rule.model.sparsifier is not None or rule.shares is None:
        return 1.0, 0
    chosen = looked_at(1 - backend.to_numpy(rule.shares.spike))
    return estep.spot_check(rule.precisions[i], rule.seen[i].precision, chosen)
