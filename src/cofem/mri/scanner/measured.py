"""Checked k-space on a grid: what was measured, and what would be measured of an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.mri.image.phase import centre_phase
from cofem.mri.scanner.coil_encoding import make_encoding
from cofem.mri.scanner.encoding import Encoding
from cofem.mri.scanner.mirror import mirrored

LEAST_SIDE = 64  # pixels: what smaller pictures show of a phase does not decide
# Groups that are enough to leave some out, and the least side of the middle that never is.
ENOUGH_GROUPS, LEAST_MIDDLE = 4, 3
MOST_TWINS = 0.75  # of random samples a share of 1/R has one at −k; of spokes all but roundings
TILE = 3  # points of k-space that are left out together where no lines were measured


@dataclass(frozen=True)
class KSpace:
    """Checked data in FFT order.

    Attributes
    ----------
    kspace : array (L, *shape) or (L, C, *shape), complex128
        Zero where nothing was measured.
    mask : boolean array (L, *shape)
    sensitivities : array (L, C, *shape), complex128, or None
        Where M images of a contrast lie over each other, (L, M, C, *shape).
    centered : bool
        Whether the caller's images and k-space have their centre at n // 2.
    like : array
        Of the caller's library, on the caller's device.
    """

    kspace: np.ndarray
    mask: np.ndarray
    sensitivities: np.ndarray | None
    centered: bool
    like: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The image axes."""
        return self.mask.shape[1:]

    @property
    def fully_sampled(self) -> bool:
        """Whether nothing is missing."""
        return bool(self.mask.all())

    between = 1.0  # what was never measured is as far from samples as what was left out

    @property
    def n_sets(self) -> int:
        """How many images of a contrast lie over each other."""
        sets = self.sensitivities is not None and self.sensitivities.ndim > self.mask.ndim + 1
        return self.sensitivities.shape[1] if sets and self.sensitivities is not None else 1

    @property
    def n_coils(self) -> int:
        """How many coils measured."""
        return self.kspace.shape[1] if self.kspace.ndim > self.mask.ndim else 1

    def encoding(self, real: bool, phase: np.ndarray | None = None) -> Encoding:
        """Return Φ, behind numbers of modulus one (L, *shape) where a phase is turned away."""
        turn = None if phase is None else backend.from_numpy(phase, self.like)
        return make_encoding(self._mask_there, self._coils_there, real, turn)

    def first_phase(self, smooth: np.ndarray) -> np.ndarray:
        """Return exp(iφ) from the centre of k-space, 1 for contrasts that are not ``smooth``."""
        found = centre_phase(self.kspace, self.mask, self.sensitivities)
        found[~smooth] = 1
        return found

    def without(self, left_out: np.ndarray) -> KSpace:
        """Return the data without the samples of a boolean array (L, *shape)."""
        mask = self.mask & ~left_out
        kept = mask if self.sensitivities is None else mask[:, None]
        return replace(self, kspace=self.kspace * kept, mask=mask)

    def coarser(self) -> KSpace:
        """Return the middle half of k-space along every axis: the same object with larger pixels.

        Itself where a side would become short.
        """
        if min(self.shape) < 2 * LEAST_SIDE:
            return self
        kept = [np.flatnonzero(np.abs(np.fft.fftfreq(n)) < 0.25) for n in self.shape]
        middle: Any = (..., *np.ix_(*kept))
        maps = self.sensitivities
        if maps is not None:
            spectrum = np.fft.fftn(maps, axes=self._axes, norm="forward")[middle]
            maps = np.fft.ifftn(spectrum, axes=self._axes, norm="forward")
        return replace(self, kspace=self.kspace[middle], mask=self.mask[middle], sensitivities=maps)

    # Transforms of images are made where the caller's data are: a device does in a moment what
    # would take a host longer than all of the learning.

    @cached_property
    def _mask_there(self) -> Array:
        return backend.from_numpy(self.mask.astype(float), self.like)

    @cached_property
    def _coils_there(self) -> Array | None:
        coils = self.sensitivities
        return None if coils is None else backend.from_numpy(coils, self.like)

    def predicted(self, images: np.ndarray) -> np.ndarray:
        """Return the whole k-space of images (S, M·L, P), in the shape of the data."""
        return backend.to_numpy(self._predicted(self._there(images)))

    def _there(self, images: np.ndarray) -> Array:
        x = backend.from_numpy(np.ascontiguousarray(images), self.like)
        xp = backend.namespace(x)
        # SciPy's transforms know how to use that images are real.
        return x if backend.is_numpy(x) else xp.astype(x, xp.complex128, copy=False)

    def _predicted(self, images: Array) -> Array:
        xp, fft = backend.namespace(images), backend.fft_module(images)
        x = xp.reshape(images, (images.shape[0], self.n_sets, -1, *self.shape))
        sets = self._sets_there
        x = sum((x[:, m, :, None, ...] * s for m, s in enumerate(sets[1:], 1)),
                x[:, 0, :, None, ...] * sets[0]) if sets else x[:, 0, ...]  # fmt: skip
        found: Array = fft.fftn(x, axes=self._axes, norm="ortho")
        return found

    def radius(self) -> np.ndarray:
        """Return the distance from the centre of k-space, (L, *shape); 1 ends an axis."""
        grids = np.meshgrid(*[2 * np.fft.fftfreq(side) for side in self.shape], indexing="ij")
        distance = np.sqrt(np.sum(np.stack(grids) ** 2, axis=0))
        return np.broadcast_to(distance, self.mask.shape)

    def image_radius(self) -> np.ndarray:
        """Return the same for the transform of an image, (*shape)."""
        return np.asarray(self.radius()[0])

    def reach(self) -> np.ndarray:
        """Return how far out frequencies were measured in the direction of each, (L, *shape).

        Along an axis on which the mask varies no frequency above the highest sample was: there it
        is that sample's distance from the centre, elsewhere the frequency's own.
        """
        found = self.radius().copy()
        for contrast, mask in zip(found, self.mask, strict=True):
            for axis, side in enumerate(self.shape):
                along = 2 * np.abs(np.fft.fftfreq(side))
                others = tuple(i for i in range(mask.ndim) if i != axis)
                edge = along[mask.any(axis=others)].max(initial=0.0)
                beyond = np.expand_dims(along > edge, others)
                np.minimum(contrast, edge, out=contrast, where=np.broadcast_to(beyond, mask.shape))
        return found

    def visible(self) -> np.ndarray:
        """Return where any coil sees an image, boolean (M·L, P)."""
        flat = (len(self.mask) * self.n_sets, int(np.prod(self.shape)))
        if self.sensitivities is None:
            return np.ones(flat, dtype=bool)
        seen = np.any(self.sensitivities != 0, axis=-1 - len(self.shape))
        return np.asarray((seen if self.n_sets == 1 else seen.swapaxes(0, 1)).reshape(flat))

    def groups(self) -> np.ndarray:
        """Return numbers of what is left out together, (L, *shape); −1: never.

        Lines along the axes on which the mask is constant; elsewhere tiles of k-space, for
        the object's size makes neighbouring points alike. Not the fully sampled middle. A place
        has the same number in all contrasts whose masks vary along the same axes.
        """
        most, twins = max(self.shape), _has_twins(self.mask)
        while True:
            found, blocks = zip(*(_groups(mask, most, twins) for mask in self.mask), strict=True)
            if most < LEAST_MIDDLE + 2 or min(map(_number, found)) >= ENOUGH_GROUPS:
                break
            # Hardly anything lies outside the middle: its border may be left out too.
            most = min(most, max(blocks)) - 2
        labels = [np.broadcast_to(np.fft.ifftshift(x), self.shape) for x in found]
        return np.stack(labels)

    def restored(self, image: np.ndarray) -> np.ndarray:
        """Return flattened images (…, P) in the caller's order, (…, *shape).

        Of several sets, images (…, M·L, P) as (…, L, M, *shape).
        """
        if self.n_sets > 1 and image.ndim > 1:
            sets = image.reshape(*image.shape[:-2], self.n_sets, -1, image.shape[-1])
            image = np.swapaxes(sets, -3, -2)
        image = image.reshape(*image.shape[:-1], *self.shape)
        return np.fft.fftshift(image, self._axes) if self.centered else image

    def handed_back(self, x: np.ndarray) -> Any:
        """Return ``x`` in the caller's library, on the caller's device."""
        return backend.from_numpy(np.ascontiguousarray(x), self.like)

    @property
    def _sets_there(self) -> list[Array]:
        """The sensitivities of every set, (L, C, *shape)."""
        coils = self._coils_there
        if coils is None:
            return []
        return [coils[:, m, ...] for m in range(self.n_sets)] if self.n_sets > 1 else [coils]

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.shape), 0))


def _has_twins(masks: np.ndarray) -> bool:
    """Whether most samples outside the middle have one at −k, as on spokes; masks (L, *shape).

    Of real images a sample at −k says what one at k is. By chance few have such a twin, and so it
    is with what was never measured.
    """
    centred = [np.fft.fftshift(mask) for mask in masks]
    outer = [np.fft.ifftshift(mask & ~central_block(mask)) for mask in centred]
    twins = [x & mirrored(x, tuple(range(x.ndim))) for x in outer]
    return bool(np.sum(twins) > MOST_TWINS * np.sum(outer))


def _groups(mask: np.ndarray, most: int, twins: bool) -> tuple[np.ndarray, int]:
    """Return the numbers of places, centred, of one length where the mask does not vary; −1: never.

    And the longest side of the middle that is never left out, at most ``most``. A place has the
    number of its twin at −k in the middle, and where all have ``twins``.
    """
    varies = [bool(np.any(mask != np.roll(mask, 1, axis))) for axis in range(mask.ndim)]
    first = tuple(slice(None) if v else slice(0, 1) for v in varies)
    small = np.fft.fftshift(mask[first])
    tile = 1 if sum(varies) < 2 else TILE
    places = [np.arange(n) // tile for n in small.shape]
    counts = [int(p[-1]) + 1 for p in places]
    label = np.ravel_multi_index(tuple(np.meshgrid(*places, indexing="ij")), tuple(counts))
    middle, block = central_block(small), central_block(small, most)
    mirror = np.fft.fftshift(mirrored(np.fft.ifftshift(label), tuple(range(small.ndim))))
    paired = np.where(middle | twins, np.minimum(label, mirror), label)
    side = max(len(np.unique(where)) for where in np.nonzero(block)) if block.any() else 0
    return np.where(small & ~block, paired, -1), side


def _number(labels: np.ndarray) -> int:
    return len(np.unique(labels[labels >= 0]))


def central_block(mask: np.ndarray, most: int | None = None) -> np.ndarray:
    """Return the largest fully sampled box around the centre of a centred mask.

    ``most`` limits its sides.

    Examples
    --------
    >>> central_block(np.array([1, 0, 1, 1, 1, 0], dtype=bool)).astype(int)
    array([0, 0, 1, 1, 1, 0])
    """
    best, half = np.zeros(mask.shape, dtype=bool), 0
    while 2 * half - 1 <= max(mask.shape) and (most is None or 2 * half + 1 <= most):
        box = tuple(slice(max(n // 2 - half, 0), min(n // 2 + half + 1, n)) for n in mask.shape)
        if not mask[box].all():
            break
        best = np.zeros(mask.shape, dtype=bool)
        best[box] = True
        half += 1
    return best
