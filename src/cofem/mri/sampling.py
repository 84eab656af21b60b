"""Which lines of k-space to measure: the power rule of SparseMRI."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

# How many masks are drawn, of which the one with the least aliasing is kept (ten in SparseMRI's
# genSampling), and how many draws it may take to have as many of the wanted size.
MASKS_DRAWN, MOST_DRAWS = 10, 100_000
HALVINGS = 60  # of an interval of two: to 2^-59, below the rounding of double precision


def power_rule_mask(
    shape: Sequence[int], factor: float, power: float = 5.0, seed: int = 0
) -> np.ndarray:
    """Draw a mask of whole lines, more of them near the centre of k-space.

    The rule of SparseMRI (Lustig, Donoho and Pauly 2007): the probability of a line at
    distance r from the centre (r = 1 at the edge) is (1 − r)^power plus a constant, clipped
    to one, and the constant makes the expected number n/factor. Ten masks that have the zero
    frequency are drawn and the one with the least aliasing is kept.

    Parameters
    ----------
    shape : (H, W) or (L, H, W)
        Lines run along the first image axis and are chosen along the last. With L in front
        every contrast gets a mask of its own.
    factor : float
        One line in ``factor`` is measured.
    power : float
        How fast the density falls off.
    seed : int

    Returns
    -------
    boolean array of ``shape``, centred: the zero frequency is at n // 2.

    Examples
    --------
    >>> mask = power_rule_mask((64, 64), factor=4, power=5, seed=0)
    >>> mask.shape, int(mask[0].sum()), bool(mask[0, 32])
    ((64, 64), 16, True)
    """
    sides = tuple(operator.index(side) for side in shape)
    if len(sides) not in (2, 3) or min(sides) < 1:
        raise ValueError(
            f"shape must be (H, W) or (L, H, W) with positive sides, got {tuple(shape)}"
        )
    if not (math.isfinite(factor) and factor >= 1):
        raise ValueError(f"factor must be a number of at least 1, got {factor!r}")
    if not (math.isfinite(power) and power >= 0):
        raise ValueError(f"power must be a finite number, not negative, got {power!r}")
    n_masks = sides[0] if len(sides) == 3 else 1
    density = _density(sides[-1], factor, power)
    random = np.random.default_rng(seed)
    lines = np.stack([_least_aliased(density, random) for _ in range(n_masks)])
    masks = np.broadcast_to(lines[:, None, :], (n_masks, *sides[-2:])).copy()
    return masks if len(sides) == 3 else masks[0]


def _density(n: int, factor: float, power: float) -> np.ndarray:
    wanted = max(1.0, n / factor)
    distance = np.abs(np.arange(n) - n // 2) / max(n / 2, 1)
    shape = np.clip(1 - distance, 0, 1) ** power
    low, high = -1.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if np.clip(shape + middle, 0, 1).sum() > wanted:
            high = middle
        else:
            low = middle
    return np.clip(shape + low, 0, 1)


def _least_aliased(density: np.ndarray, random: np.random.Generator) -> np.ndarray:
    wanted = round(float(density.sum()))
    best, least = None, math.inf
    # A density below one somewhere has draws of every size near its mean, so this ends.
    found = 0
    for _ in range(MOST_DRAWS):
        lines = random.random(len(density)) < density
        if lines.sum() != wanted:
            continue
        if wanted == 1:
            lines[len(density) // 2] = True
        if not lines[len(density) // 2]:  # without the zero frequency nobody can reconstruct
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            weighted = np.where(density > 0, lines / np.maximum(density, 1e-300), 0.0)
        spread = np.abs(np.fft.ifft(weighted))[1:]
        aliasing = float(spread.max()) if len(spread) else 0.0
        if aliasing < least:
            best, least = lines, aliasing
        found += 1
        if found == MASKS_DRAWN:
            break
    if best is None:
        raise RuntimeError("no mask of the wanted size was drawn; try another seed")
    return best
