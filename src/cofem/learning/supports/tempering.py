"""Laws with more noise, by which a chain finds its way from one mode to another.

Where the noise is small a chain stays for long at the mode that it found first: to leave it, it
would have to pass through sets that fit y badly. With more noise these are hardly worse, and a
chain moves freely. So several chains run side by side, each with more noise than the one before it,
and after every sweep neighbours exchange their states with the probability that leaves the law of
each as it is (parallel tempering: Geyer 1991; Hukushima & Nemoto, J. Phys. Soc. Jpn. 1996). Only
the first of them is of the law itself, and only it counts.

More noise is another thing than the likelihood to a power below one, as is usual: with a power the
determinants in the evidence lose their weight too, and most coordinates become non-zero; with more
noise fewer are, and the sweeps are cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from cofem.learning.supports.gains import ROUNDING

# The factor between the noise variances of neighbours. With 4 half as many laws do as well on blurs
# of width 5, but chains agree less often on smooth spectra, blurs of width 2 and leadfields.
STEP = 1.8
# With the most noise its power is this share of that of y, and there are at most so many laws.
MOST_NOISE, MOST_LAWS = 0.1, 11

# Non-zero coordinates, their slabs, the common magnitude and its spread.
State = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Law:
    """The law of the non-zeros with the noise precision multiplied by ``share``.

    Attributes
    ----------
    columns, y : arrays (D, N), (N,)
        The columns of Φ, of length one, as rows.
    scales, spreads : arrays
        As for :func:`cofem.learning.supports.chain.run_chain`, of the law with the least noise.
    share : float
    beta : float
        The noise precision; zero if it is not known.
    most : int
        The most coordinates that are non-zero at a time.
    """

    columns: np.ndarray
    y: np.ndarray
    scales: np.ndarray
    spreads: np.ndarray
    share: float
    beta: float
    most: int

    def log_likelihood(self, state: State) -> float:
        """Return log p(y | state), up to a constant; −∞ if there are too many non-zeros."""
        places, slabs, (magnitude, spread) = state
        if len(places) > self.most:
            return -math.inf
        variances = np.append(self.share * self.scales, [spread, spread])[slabs]
        means = np.append(np.zeros(len(self.scales)), [magnitude, -magnitude])[slabs]
        chosen = self.columns[places]
        left = self.y - means @ chosen
        power, log_det = float(left @ left), 0.0
        if len(places):
            factor = np.linalg.cholesky(chosen @ chosen.T + np.diag(1 / variances))
            power -= float(np.sum(solve_triangular(factor, chosen @ left, lower=True) ** 2))
            log_det = 2 * float(np.sum(np.log(np.diag(factor)))) + float(np.sum(np.log(variances)))
        power = max(power, ROUNDING * float(self.y @ self.y))
        fit = self.beta * power if self.beta > 0 else len(self.y) * math.log(power)
        return -0.5 * (fit + log_det)


def moved(state: State, here: Law, there: Law) -> State:
    """Return the same state in another law: the spread is counted in units of its noise."""
    places, slabs, (magnitude, spread) = state
    return places, slabs, np.array([magnitude, spread * there.share / here.share])


def shares_for(beta: float, y: np.ndarray) -> np.ndarray:
    """Return how much less precise the noise is, law by law, beside ``beta``; 1 is not among them.

    Examples
    --------
    >>> shares_for(100.0, np.ones(4)).round(3)
    array([0.562, 0.316, 0.178, 0.1  ])
    >>> shares_for(5.0, np.ones(4))
    array([], dtype=float64)
    """
    contrast = MOST_NOISE * beta * float(np.mean(y**2))
    number = min(math.ceil(math.log(max(contrast, 1.0)) / math.log(STEP)), MOST_LAWS - 1)
    return np.asarray(np.geomspace(1, 1 / max(contrast, 1.0), number + 1)[1:])


def exchange(laws: list[Law], states: list[State], random: np.random.Generator) -> int:
    """Let neighbours exchange their states; return how many did."""
    done = 0
    for i in range(len(laws) - 1):
        one, other = laws[i], laws[i + 1]
        here, there = states[i], states[i + 1]
        down, up = moved(there, other, one), moved(here, one, other)
        gain = one.log_likelihood(down) + other.log_likelihood(up)
        gain -= one.log_likelihood(here) + other.log_likelihood(there)
        if math.log(random.random()) < gain:
            states[i], states[i + 1] = down, up
            done += 1
    return done
