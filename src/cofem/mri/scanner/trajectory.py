"""Checked samples along a trajectory, and Φ of images measured so.

Images have their centre at n // 2 here, as the user's have. ΦᴴΦ is a convolution: two
transforms of twice the size, no gridding inside conjugate gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.mri.image.phase import PHASE_WIDTH
from cofem.mri.scanner.encoding import Encoding
from cofem.operators import NUFFT, Smoothing
from cofem.operators.nufft import toeplitz_product

DENSITY_ITERATIONS = 10  # of Pipe and Menon's rule; the weights only make the first image

PIECES = 200  # of a trajectory that is given without readouts: as many as a radial scan has, about


@dataclass(frozen=True)
class TrajectoryData:
    """Samples of L contrasts; it answers what :class:`cofem.mri.scanner.measured.KSpace` does.

    Attributes
    ----------
    kspace : array (L, N) or (L, C, N), complex128
        Zero where a sample is left out.
    mask : boolean array (L, N)
    operators : list of NUFFT
        Of every contrast, all N samples.
    readouts : integer array (N,)
        Which readout a sample belongs to: readouts are left out whole.
    shape : tuple of int
    sensitivities : array (L, C, *shape), or None
    """

    kspace: np.ndarray
    mask: np.ndarray
    operators: list[NUFFT]
    readouts: np.ndarray
    shape: tuple[int, ...]
    sensitivities: np.ndarray | None
    like: Array = field(repr=False)

    centered = False  # the seam of the image is where its indices begin
    fully_sampled, n_sets = False, 1
    between = 0.5  # a readout that was left out is twice as far from others as what lies between

    @property
    def n_coils(self) -> int:
        """How many coils measured."""
        return 1 if self.sensitivities is None else int(self.sensitivities.shape[1])

    def encoding(self, real: bool, phase: np.ndarray | None = None) -> TrajectoryEncoding:
        """Return Φ of the samples that are kept."""
        kept = [
            NUFFT(self.shape, op.trajectory[mask])
            for op, mask in zip(self.operators, self.mask, strict=True)
        ]
        turn = None if phase is None else phase[:, None]
        coils = self.sensitivities if turn is None else turn * self._maps
        return TrajectoryEncoding(kept, self.mask, coils, self.shape, real)

    def first_image(self) -> np.ndarray:
        """Return images (L, P) by density weights: where learning begins."""
        image = self._back((self.kspace * self._spread(self._density))[None])[0]
        image = image.reshape(len(self.mask), -1)
        seen = self.predicted(image[None])[0] * self._spread(self.mask)
        axes = tuple(range(1, seen.ndim))
        scale = np.sum(np.abs(seen) ** 2, axis=axes)
        size = np.sum(seen.conj() * self.kspace, axis=axes).real / np.where(scale > 0, scale, 1)
        return np.asarray(image * size[:, None])

    def first_phase(self, smooth: np.ndarray) -> np.ndarray:
        """Return exp(iφ) of the first image, smoothed."""
        image = self.first_image()
        smoothed = Smoothing(self.shape, PHASE_WIDTH).forward
        image = smoothed(image.real) + 1j * smoothed(image.imag)
        image[~smooth] = 1
        return np.asarray(np.exp(1j * np.angle(image)).reshape(-1, *self.shape))

    def coarser(self) -> TrajectoryData:
        """Return itself; see :meth:`cofem.mri.scanner.measured.KSpace.coarser`."""
        return self

    def without(self, left_out: np.ndarray) -> TrajectoryData:
        """Return the data without the samples of a boolean array (L, N)."""
        mask = self.mask & ~left_out
        return replace(self, kspace=self.kspace * self._spread(~left_out), mask=mask)

    def predicted(self, images: np.ndarray) -> np.ndarray:
        """Return all samples of images (S, L, P), in the shape of the data."""
        x = images.reshape(*images.shape[:-1], *self.shape)[:, :, None] * self._maps
        x = x.reshape(*x.shape[:3], -1)
        rows = [op.forward(x[:, i]) for i, op in enumerate(self.operators)]
        out = np.stack(rows, axis=1)
        return out if self.sensitivities is not None else out[:, :, 0]

    def radius(self) -> np.ndarray:
        """Return the distance of every sample from the centre of k-space, (L, N)."""
        half = np.asarray(self.shape) / 2
        distances = [np.linalg.norm(op.trajectory / half, axis=1) for op in self.operators]
        return np.stack(distances)

    def image_radius(self) -> np.ndarray:
        """Return the same for the transform of an image, (*shape)."""
        grids = np.meshgrid(*[2 * np.fft.fftfreq(n) for n in self.shape], indexing="ij")
        return np.asarray(np.sqrt(np.sum(np.stack(grids) ** 2, axis=0)))

    def reach(self) -> np.ndarray:
        """Return how far out frequencies were measured, at most their own distance, (L, *shape)."""
        farthest = self.radius().max(axis=1).reshape(-1, *[1] * len(self.shape))
        return np.asarray(np.minimum(self.image_radius(), farthest))

    def visible(self) -> np.ndarray:
        """Return where any coil sees an image, boolean (L, P)."""
        return np.asarray(np.any(self._maps != 0, axis=1)).reshape(len(self.mask), -1)

    def groups(self) -> np.ndarray:
        """Return the number of every sample's readout, (L, N)."""
        return np.broadcast_to(self.readouts, self.mask.shape)

    def restored(self, image: np.ndarray) -> np.ndarray:
        """Return flattened images (…, P) as (…, *shape)."""
        return image.reshape(*image.shape[:-1], *self.shape)

    def handed_back(self, x: np.ndarray) -> Any:
        """Return ``x`` in the caller's library, on the caller's device."""
        return backend.from_numpy(np.ascontiguousarray(x), self.like)

    @cached_property
    def _maps(self) -> np.ndarray:
        if self.sensitivities is not None:
            return self.sensitivities
        return np.ones((len(self.mask), 1, *self.shape))

    def _spread(self, of_samples: np.ndarray) -> np.ndarray:
        return of_samples if self.sensitivities is None else of_samples[:, None]

    def _back(self, kspace: np.ndarray) -> np.ndarray:
        """Return Φᴴ of all samples, (S, L, *shape)."""
        rows = kspace if self.sensitivities is not None else kspace[:, :, None]
        images = [op.adjoint(rows[:, i]) for i, op in enumerate(self.operators)]
        x = np.stack(images, axis=1).reshape(*rows.shape[:3], *self.shape)
        return np.asarray(np.sum(self._maps.conj() * x, axis=2))

    @cached_property
    def _density(self) -> np.ndarray:
        """Weights (L, N), zero for what is left out, under which ΦᴴWΦ is about one."""
        out = []
        for op, mask in zip(self.operators, self.mask, strict=True):
            weights = mask.astype(float)
            for _ in range(DENSITY_ITERATIONS):
                size = np.abs(op.forward(op.adjoint(weights.astype(complex))))
                weights = np.divide(weights, size, out=np.zeros_like(weights), where=size > 0)
            test = np.random.default_rng(0).standard_normal(op.shape[1])
            gain = np.vdot(test, op.adjoint(weights * op.forward(test))).real / np.vdot(test, test)
            # White images are seen as far as the disc of k-space goes: π/4 of the square.
            out.append(weights * min(np.pi / 4, len(weights) / op.shape[1]) / max(gain, 1e-30))
        return np.stack(out)


@final
class TrajectoryEncoding(Encoding):
    """Φ by finufft, ΦᴴΦ by a kernel of twice the size; coils as on a grid."""

    def __init__(
        self,
        operators: list[NUFFT],
        mask: np.ndarray,
        coils: np.ndarray | None,
        shape: tuple[int, ...],
        real: bool,
    ) -> None:
        self.shape, self.n_parts = shape, 1 if real else 2
        self._operators, self._mask = operators, mask
        self._coils = np.ones((len(operators), 1, *shape)) if coils is None else coils
        self._kernel = np.stack([op.kernel() for op in operators])[:, None]
        counts = np.array([op.shape[0] for op in operators])
        self.samples = counts * (1 if coils is None else coils.shape[1])
        seen = np.sum(np.abs(self._coils) ** 2, axis=1).reshape(len(operators), -1)
        diagonal = seen * (counts / math.prod(shape))[:, None]
        self._diagonal = np.concatenate([diagonal] * self.n_parts)

    def adjoint(self, kspace: Any) -> Any:
        """Φᴴ y, (I, P), of all samples (those left out are zero)."""
        return self._adjoint(kspace[None] if kspace.ndim > 2 else kspace[None, :, None])[0]

    def gram(self, x: Any, factor: Any) -> np.ndarray:
        """Return factor ∘ ΦᴴΦ x."""
        kind = np.complex64 if x.dtype == np.float32 else np.complex128
        images = self.assembled(x).reshape(x.shape[0], -1, *self.shape)
        coils = images[:, :, None] * self._coils.astype(kind)
        seen = np.empty_like(coils)
        for i, kernel in enumerate(self._kernel[:, 0]):
            seen[:, i] = toeplitz_product(coils[:, i], kernel.astype(kind))
        return np.asarray(self._parts(seen) * factor, dtype=x.dtype)

    def draw(self, random: Random, number: int, factor: Any) -> np.ndarray:
        """Draw from N(0, factor ∘ ΦᴴΦ)."""
        like = np.empty(0, dtype=np.complex128)
        n_coils = self._coils.shape[1]
        shape = (number, self._mask.shape[0], n_coils, self._mask.shape[1])
        noise = backend.to_numpy(random.normal(shape, like))
        # Each part of the circular Φᴴn has half its covariance.
        pulled = self._adjoint(noise * self._mask[:, None])
        return np.asarray(pulled * np.sqrt(2 * factor), dtype=factor.dtype)

    def diagonal(self) -> Array:
        """Return the diagonal of ΦᴴΦ."""
        return self._diagonal

    def turned(self, turn: Any) -> TrajectoryEncoding:
        """Return the encoding of images that were divided by ``turn``, (L, P)."""
        coils = self._coils * turn.reshape(len(turn), 1, *self.shape)
        return TrajectoryEncoding(self._operators, self._mask, coils, self.shape, False)

    def assembled(self, x: np.ndarray) -> np.ndarray:
        """Return the contrasts."""
        if self.n_parts == 1:
            return x
        half = x.shape[-2] // 2
        return np.asarray(x[..., :half, :] + 1j * x[..., half:, :])

    def _adjoint(self, kspace: np.ndarray) -> np.ndarray:
        rows = [
            op.adjoint(np.ascontiguousarray(kspace[:, i][..., mask]))
            for i, (op, mask) in enumerate(zip(self._operators, self._mask, strict=True))
        ]
        images = np.stack(rows, axis=1).reshape(*kspace.shape[:3], *self.shape)
        return self._parts(images)

    def _parts(self, images: np.ndarray) -> np.ndarray:
        image = np.sum(self._coils.conj() * images, axis=2)
        image = image.reshape(*image.shape[:2], -1)
        if self.n_parts == 1:
            return np.asarray(image.real)
        return np.concatenate([image.real, image.imag], axis=1)


def checked_trajectory(
    kspace: Any, trajectory: Any, shape: Any, sensitivities: Any, like: Array
) -> TrajectoryData:
    """Check samples and their places.

    Parameters
    ----------
    kspace : array (L, …) or with coils (L, C, …), … as in the trajectory
    trajectory : array (readouts, samples, axes) or (N, axes), or the same with L in front
    shape : tuple of int, optional
        Of the images; with sensitivities it is theirs.
    """
    y = np.asarray(backend.to_numpy(kspace) if backend.is_array(kspace) else kspace)
    k = np.asarray(trajectory, dtype=float)
    maps = None if sensitivities is None else np.asarray(sensitivities, dtype=complex)
    if k.ndim < 2:
        raise ValueError(f"trajectory has shape {k.shape}; expected (readouts, samples, axes)")
    axes = k.shape[-1]
    if shape is None and maps is None:
        raise ValueError("shape: the images' shape is needed with a trajectory, such as (256, 256)")
    sides = tuple(int(n) for n in (maps.shape[-axes:] if maps is not None else shape))
    if len(sides) != axes:
        raise ValueError(f"shape {sides} has {len(sides)} axes, and the trajectory {axes}")
    places = k.shape[:-1]
    lead = 1 if maps is None else 2
    if y.shape[lead:] != places and (y.shape[lead:] != places[1:] or len(y) != places[0]):
        raise ValueError(
            f"kspace has shape {y.shape}; expected (L, {'coils, ' if maps is not None else ''}"
            f"{', '.join(map(str, places))}), the samples of the trajectory"
        )
    own = y.shape[lead:] != places
    if not np.isfinite(y).all():
        raise ValueError("kspace contains NaN or Inf")
    inner = places[1:] if own else places
    length = math.prod(inner)
    per_readout = inner[-1] if len(inner) > 1 else max(length // PIECES, 1)
    flat = y.reshape(*y.shape[:lead], length).astype(complex)
    paths = k.reshape(len(y), length, axes) if own else [k.reshape(length, axes)] * len(y)
    if maps is not None:
        maps = np.broadcast_to(maps, (len(y), *maps.shape[-axes - 1 :]))
        if maps.shape[1] != y.shape[1]:
            raise ValueError(
                f"sensitivities have {maps.shape[1]} coils and kspace has {y.shape[1]}"
            )
    operators = [NUFFT(sides, path) for path in paths]
    readouts = np.arange(length) // per_readout
    mask = np.ones((len(y), length), dtype=bool)
    return TrajectoryData(flat, mask, operators, readouts, sides, maps, like)
