"""What the prior took away although the data show it: long, faint things.

A faint disc changes each of its pixels by less than the noise, so the prior, which looks at
gradients of single pixels, flattens it. But it leaves a mark: the residual, averaged over a few
pixels, has a bump there that noise does not make. Bumps that stand out are put back, as
Bregman iteration does for total variation (Osher et al. 2005), and every bump widens the interval.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.mri.image.fit import Measured
from cofem.operators import Smoothing

WIDTHS = (1.5, 3.0)  # pixels over which residuals are averaged: faint things are wider than one
STANDS_OUT = 1.5  # standard deviations of the averaged noise from which a bump is put back
REAL_MEDIAN, COMPLEX_MEDIAN = 0.4549, np.log(2)  # of |ε|², where E|ε|² = 1


def marks_of(data: Measured, image: np.ndarray, real: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return what is to be put back, and the variance that the marks add, both (L, P)."""
    put_back, variance = np.zeros_like(image), np.zeros(image.shape)
    median = REAL_MEDIAN if real else COMPLEX_MEDIAN
    there = data.visible()
    for width in WIDTHS:
        smooth = Smoothing(data.shape, width)
        rest = data.residual(image + put_back)
        bump = _averaged(data, smooth, rest.real if real else rest) / _gain(data, smooth, there)
        power = np.abs(bump) ** 2
        noise = np.stack(
            [[np.median(p[t]) if t.any() else 0.0] for p, t in zip(power, there, strict=True)]
        )
        noise = noise / median
        share = 1 - STANDS_OUT**2 * noise / np.maximum(power, 1e-300)
        put_back = put_back + bump * np.maximum(share, 0)
        variance = variance + np.maximum(power - noise, 0)
    return put_back, variance


def _gain(data: Measured, smooth: Smoothing, there: np.ndarray) -> np.ndarray:
    """Return how much of a smooth bump the samples see where coils see anything, (L, 1)."""
    random = np.random.default_rng(0)
    whole = _averaged(data, smooth, random.standard_normal((1, *there.shape))) * there
    seen = data.seen(whole).real
    gain = np.sum(seen * whole, axis=(0, 2)) / np.maximum(np.sum(whole**2, axis=(0, 2)), 1e-300)
    return np.asarray(np.maximum(gain, 1e-3))[:, None]


def _averaged(data: Measured, smooth: Smoothing, x: np.ndarray) -> np.ndarray:
    def average(part: np.ndarray) -> np.ndarray:
        return backend.done_there(smooth.forward, part, data.like)

    return average(x.real) + 1j * average(x.imag) if np.iscomplexobj(x) else average(x)
