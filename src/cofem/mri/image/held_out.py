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

# Distances from the centre of k-space (1: the end of an axis) between which a ratio is taken.
BINS = np.array([0.0, 0.06, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9, np.inf])
CENTRES = np.array([0.03, 0.09, 0.16, 0.25, 0.37, 0.55, 0.77, 1.1])
DRAWS = 4  # of each fold: hundreds of samples in a bin average them
# Neighbouring samples err together, so a bin of n says no more than n/TOGETHER single ones.
TOGETHER, MOST_TOLD = 10, 30
BEND, APART, FLAT = 4.0, 1.0, 0.02  # how stiff the curve is, and how alike the contrasts'
FEWEST = 2  # lines, or groups of points, of a fold
PARTS = 4  # a fold leaves out a quarter of what may be left out
# Left-out samples have measured neighbours more often than what was never measured, so
# they may widen the posterior, not narrow it.
LEAST, MOST = 0.0, np.log(30.0)  # logarithms of what a standard deviation is multiplied by


@dataclass
class Evidence:
    """Sums over left-out samples, by contrast and bin, (L, bins): power left and predicted."""

    count: np.ndarray
    left: np.ndarray
    predicted: np.ndarray
    noise: np.ndarray
    moved: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def empty(cls, n_contrasts: int) -> Evidence:
        """Return what is known before anything was left out."""
        shape = (n_contrasts, len(CENTRES))
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape))

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
        radius = data.radius()
        for index, chosen in enumerate(left_out):
            where = np.digitize(radius[index][chosen], BINS) - 1
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

        |residual|² of a sample is exponential with mean c · predicted + noise. log c is smooth
        in log frequency and alike for the contrasts, where the samples do not say otherwise.
        """
        n = np.minimum(self.count / TOGETHER, MOST_TOLD)
        known = self.count > 0
        count = np.maximum(self.count, 1)
        scale = float((self.left / count).max())
        if not scale > 0:
            return np.zeros(n.shape)
        left, predicted, noise = (
            x / count / scale for x in (self.left, self.predicted, self.noise)
        )
        tiny = 1e-9

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            log_c = flat.reshape(n.shape)
            part = np.exp(log_c) * predicted
            mean = part + noise + tiny
            value = float(np.sum(np.where(known, n * (np.log(mean) + left / mean), 0)))
            slope = np.where(known, n * (1 / mean - left / mean**2) * part, 0)
            bend = log_c[:, 2:] - 2 * log_c[:, 1:-1] + log_c[:, :-2]
            value += 0.5 * BEND * float(np.sum(bend**2))
            slope[:, 2:] += BEND * bend
            slope[:, 1:-1] -= 2 * BEND * bend
            slope[:, :-2] += BEND * bend
            apart = log_c - log_c.mean(axis=0)
            value += 0.5 * APART * float(np.sum(apart**2))
            slope += APART * apart
            value += 0.5 * FLAT * float(np.sum(log_c**2))
            return value, (slope + FLAT * log_c).ravel()

        found = scipy.optimize.minimize(loss, np.zeros(n.size), jac=True, method="L-BFGS-B")
        return np.asarray(np.clip(found.x.reshape(n.shape) / 2, LEAST, MOST))


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
        if len(turn) >= FEWEST * PARTS:
            folds[index][there] = turn[label[there]] % max(number, PARTS)
    found = [folds == i for i in range(number)]
    return [fold for fold in found if fold.any()]
