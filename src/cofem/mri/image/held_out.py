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
STREAM = 17  # of random numbers, beside those of image/model.py
FEWEST_TOLD = 3.0  # a Student law of two degrees of freedom has no variance
# A fold leaves out a quarter of what may be left out, and two groups at least.
PARTS, LEAST_IN_FOLD = 4, 2
# The noise that a fit has learned is too small, by 6 to 9 % on the atlas: logarithm of the ratio of
# powers, and how well it is known. What it lacks would be taken for an error of the image.
MORE_NOISE, NOISE_KNOWN = 0.13, 0.07
# Logarithms of what a standard deviation is multiplied by. Where the model is true the posterior is
# exact; so its own spread is the least.
LEAST, MOST = 0.0, np.log(30.0)


@dataclass
class Evidence:
    """Sums over left-out samples, by contrast and bin, (L, bins): power left and predicted.

    Attributes
    ----------
    count, left : array (L, bins)
        Samples, and the power that was not predicted.
    predicted, noise : array (L, bins)
        What the prior says of that power; and the noise's, with what it adds to the prediction.
    groups : array (L,)
        Lines, or tiles, that were left out.
    excess : float
        The ratio of variances where nothing was left out; see :attr:`ImageFit.excess`.
    """

    count: np.ndarray
    left: np.ndarray
    predicted: np.ndarray
    noise: np.ndarray
    groups: np.ndarray
    excess: float = 1.0
    moved: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def empty(cls, n_contrasts: int) -> Evidence:
        """Return what is known before anything was left out."""
        shape = (n_contrasts, len(CENTRES))
        power = [np.zeros(shape) for _ in range(4)]
        return cls(power[0], power[1], power[2], power[3], np.zeros(n_contrasts))

    def add(self, fit: ImageFit, data: Measured, left_out: np.ndarray, seed: int) -> None:
        """Compare a fit with the samples that it did not see, (L, …) boolean."""
        residual = not_predicted(fit, data)
        draws = fit.draws(DRAWS, seed)
        self.excess = fit.excess
        spread, known = (
            np.mean(np.abs(data.predicted(x)) ** 2, axis=0) for x in (draws.prior, draws.noise)
        )
        known = known + np.reshape(fit.noise_std**2, (-1, *[1] * (known.ndim - 1)))
        if residual.ndim > left_out.ndim:  # the coils of a sample are taken together
            residual, spread, known = (x.sum(axis=1) for x in (residual, spread, known))
        radius, labels = data.radius(), data.groups()
        for index, chosen in enumerate(left_out):
            where = np.digitize(radius[index][chosen], BINS) - 1
            self.groups[index] += len(np.unique(labels[index][chosen]))
            for target, values in (
                (self.count, np.ones(len(where))),
                (self.left, residual[index][chosen]),
                (self.predicted, spread[index][chosen]),
                (self.noise, known[index][chosen]),
            ):
                target[index] += np.bincount(where, values, len(CENTRES))
        self.moved.append(fit.image)

    def curve(self) -> np.ndarray:
        """Return the logarithm of error over standard deviation, (L, bins).

        |residual|² of a sample is exponential with mean c · predicted + ν · noise: what the prior
        says of a sample may be wrong, what the noise adds to it is known. log c is smooth
        in log frequency and alike for the contrasts, where the samples do not say otherwise; ν, of
        every contrast, is what the learned noise lacks. Lines err each in its own way: what few of
        them say of the next is a Student law, whose variance is larger.
        """
        n = np.minimum(self.count / TOGETHER, MOST_TOLD)
        count = np.maximum(self.count, 1)
        scale = float((self.left / count).max())
        usual = np.log(self.excess)
        if not scale > 0:
            return np.full(n.shape, 0.5 * usual)
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
            value += 0.5 * FLAT * float(np.sum((log_c - usual) ** 2))
            off = (log_nu - MORE_NOISE) / NOISE_KNOWN
            value += 0.5 * float(np.sum(off**2))
            more = np.sum(steep * own, axis=1) + off / NOISE_KNOWN
            return value, np.concatenate([(slope + FLAT * (log_c - usual)).ravel(), more])

        start = np.append(np.full(n.size, usual), np.zeros(len(n)))
        bounds = [(-2 * MOST, 2 * MOST)] * len(start)  # what is predicted may be nothing at all
        found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
        free = np.maximum(self.groups, FEWEST_TOLD)
        wider = 0.5 * np.log(free / (free - 2))
        log_c = found.x[: n.size].reshape(n.shape)
        # Nearer to the centre than any left-out sample it is as at the nearest one.
        log_c = log_c[:, np.maximum(np.arange(n.shape[1]), int(np.argmax(n.any(axis=0))))]
        return np.asarray(np.clip(log_c / 2 + wider[:, None], LEAST, MOST))


def not_predicted(fit: ImageFit, data: Measured) -> np.ndarray:
    """Return |residual|² of all samples, in the shape of the data."""
    return np.asarray(np.abs(data.kspace - data.predicted(fit.image[None])[0]) ** 2)


def choose_folds(data: Measured, number: int, seed: int) -> list[np.ndarray]:
    """Return what each fold leaves out, boolean arrays (L, …) that never meet.

    Whole lines where whole lines were measured. The middle of k-space is never left out. What all
    contrasts have measured alike is left out of all of them: what was never measured of one
    contrast can be seen in another no more often.
    """
    labels = data.groups()
    folds = np.full(labels.shape, -1)
    alike = np.all((labels == labels[0]) & (data.mask == data.mask[0]), axis=0)
    all_places = [np.unique(label[label >= 0]) for label in labels]
    counts = [len(places) for places in all_places if len(places) >= ENOUGH_GROUPS]
    parts = min([max(number, PARTS), *[count // LEAST_IN_FOLD for count in counts]])
    for index, (label, places) in enumerate(zip(labels, all_places, strict=True)):
        if len(places) < ENOUGH_GROUPS:
            continue
        own = np.isin(places, np.unique(label[(label >= 0) & ~alike]))
        turns = np.empty(len(places), dtype=int)
        for first, chosen, stream in ((0, ~own, 0), ((~own).sum(), own, index + 1)):
            random = np.random.default_rng([seed, STREAM, stream])
            turns[chosen] = first + random.permutation(int(chosen.sum()))
        there = label >= 0
        folds[index][there] = turns[np.searchsorted(places, label[there])] % parts
    found = [folds == i for i in range(number)]
    return [fold for fold in found if fold.any()]
