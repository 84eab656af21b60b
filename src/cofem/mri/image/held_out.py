"""What held-out samples say of a reconstruction: how far off it is at every frequency, and where.

Samples are left out in turn, each time a fit is made without them, and they are compared with
what the fit predicts for them and how sure it is. That needs no truth. Two things are kept: a
curve, by which the posterior's spread is too small or too large at a frequency, and a map of how
much the images move when samples are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.optimize

from cofem.mri.image.fit import ImageFit, Measured
from cofem.mri.scanner.measured import ENOUGH_GROUPS

# Distances from the centre of k-space (1: the end of an axis) between which a ratio is taken.
BINS = np.array([0.0, 0.06, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9, np.inf])
CENTRES = np.array([0.03, 0.09, 0.16, 0.25, 0.37, 0.55, 0.77, 1.1])
DRAWS = 4  # of each fold: hundreds of samples in a bin average them
# Neighbouring samples err together, so a bin of n says no more than n/TOGETHER single ones.
TOGETHER, MOST_TOLD = 10, 30
BEND, APART, FLAT = 4.0, 1.0, 0.02  # how stiff the curve is, and how alike the contrasts'
TINY = 1e-9  # beside the largest power: no mean is zero
FEWEST_TOLD = 3.0  # a Student law of two degrees of freedom has no variance
PARTS = 4  # a fold leaves out a quarter of what may be left out
# The noise that a fit has learned is too small, by 6 to 9 % on the atlas: logarithm of the ratio of
# powers, and how well it is known. What it lacks would be taken for an error of the image.
MORE_NOISE, NOISE_KNOWN = 0.13, 0.07
# Logarithms of what a standard deviation is multiplied by. Draws come from a prior of half its
# strength, which makes them wider by up to log(2)/2; left-out samples may take half of that back,
# no more, for they have measured neighbours more often than what was never measured.
LEAST, MOST = -0.25 * np.log(2.0), np.log(30.0)


@dataclass
class Evidence:
    """Sums over left-out samples, by contrast and bin, (L, bins): power left and predicted."""

    count: np.ndarray
    left: np.ndarray
    predicted: np.ndarray
    noise: np.ndarray
    groups: np.ndarray  # (L,): lines, or tiles, that were left out
    moved: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def empty(cls, n_contrasts: int) -> Evidence:
        """Return what is known before anything was left out."""
        shape = (n_contrasts, len(CENTRES))
        power = [np.zeros(shape) for _ in range(4)]
        return cls(power[0], power[1], power[2], power[3], np.zeros(n_contrasts))

    def add(self, fit: ImageFit, data: Measured, left_out: np.ndarray, seed: int) -> None:
        """Compare a fit with the samples that it did not see, (L, …) boolean."""
        residual = np.abs(data.kspace - data.predicted(fit.image[None])[0]) ** 2
        draws = data.predicted(fit.draws(DRAWS, seed))
        spread = np.mean(np.abs(draws) ** 2, axis=0)
        if residual.ndim > left_out.ndim:  # the coils of a sample are taken together
            coils = residual.shape[1]
            residual, spread = residual.sum(axis=1), spread.sum(axis=1)
        else:
            coils = 1
        radius, labels = data.radius(), data.groups()
        for index, chosen in enumerate(left_out):
            where = np.digitize(radius[index][chosen], BINS) - 1
            self.groups[index] += len(np.unique(labels[index][chosen]))
            noise = coils * fit.noise_std[index] ** 2
            for target, values in (
                (self.count, np.ones(len(where))),
                (self.left, residual[index][chosen]),
                (self.predicted, spread[index][chosen]),
                (self.noise, np.full(len(where), noise)),
            ):
                target[index] += np.bincount(where, values, len(CENTRES))
        self.moved.append(fit.image)

    def score(self) -> np.ndarray:
        """Return the share of the left-out power that was not predicted, (L,)."""
        return np.asarray(self.left.sum(axis=1))

    def curve(self) -> np.ndarray:
        """Return the logarithm of error over standard deviation, (L, bins).

        |residual|² of a sample is exponential with mean c · predicted + ν · noise. log c is smooth
        in log frequency and alike for the contrasts, where the samples do not say otherwise; ν, of
        every contrast, is what the learned noise lacks. Lines err each in its own way: what few of
        them say of the next is a Student law, whose variance is larger.
        """
        n = np.minimum(self.count / TOGETHER, MOST_TOLD)
        count = np.maximum(self.count, 1)
        scale = float((self.left / count).max())
        if not scale > 0:
            return np.zeros(n.shape)
        left, predicted, noise = (
            x / count / scale for x in (self.left, self.predicted, self.noise)
        )

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            log_c, log_nu = flat[: n.size].reshape(n.shape), flat[n.size :]
            part, own = np.exp(log_c) * predicted, np.exp(log_nu)[:, None] * noise
            mean = part + own + TINY
            value = float(np.sum(n * (np.log(mean) + left / mean)))
            steep = n * (1 / mean - left / mean**2)
            slope = steep * part
            bend = log_c[:, 2:] - 2 * log_c[:, 1:-1] + log_c[:, :-2]
            value += 0.5 * BEND * float(np.sum(bend**2))
            slope[:, 2:] += BEND * bend
            slope[:, 1:-1] -= 2 * BEND * bend
            slope[:, :-2] += BEND * bend
            apart = log_c - log_c.mean(axis=0)
            value += 0.5 * APART * float(np.sum(apart**2))
            slope += APART * apart
            value += 0.5 * FLAT * float(np.sum(log_c**2))
            off = (log_nu - MORE_NOISE) / NOISE_KNOWN
            value += 0.5 * float(np.sum(off**2))
            more = np.sum(steep * own, axis=1) + off / NOISE_KNOWN
            return value, np.concatenate([(slope + FLAT * log_c).ravel(), more])

        start = np.zeros(n.size + len(n))
        found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B")
        free = np.maximum(self.groups, FEWEST_TOLD)
        wider = 0.5 * np.log(free / (free - 2))
        log_c = found.x[: n.size].reshape(n.shape)
        return np.asarray(np.clip(log_c / 2, LEAST, MOST) + wider[:, None])


def choose_folds(data: Measured, number: int, seed: int) -> list[np.ndarray]:
    """Return what each fold leaves out, boolean arrays (L, …) that never meet.

    Whole lines where whole lines were measured. The middle of k-space is never left out. Where
    all contrasts were measured at the same places, all of them are left out there.
    """
    labels = data.groups()
    folds = np.full(labels.shape, -1)
    for index, label in enumerate(labels):
        first = next(i for i in range(index + 1) if np.array_equal(labels[i], label))
        random = np.random.default_rng([seed, 17, first])
        there = label >= 0
        turn = random.permutation(int(label.max()) + 1) if there.any() else np.empty(0, int)
        if len(turn) >= ENOUGH_GROUPS:
            folds[index][there] = turn[label[there]] % max(number, PARTS)
    found = [folds == i for i in range(number)]
    return [fold for fold in found if fold.any()]
