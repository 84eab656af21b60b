"""The model ``image``: one posterior of the image, edges shared by contrasts and directions.

The precision of the image is Q = β ΦᴴΦ + Rᵀ T R (:mod:`cofem.mri.image.edges`), T learned by EM
(:mod:`cofem.mri.image.edge_prior`). An E-step solves for the mean and for a draw or two from the
posterior; the gradients of the draws stand for the posterior covariance in the M-step,
which averages over neighbours, so that very few suffice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.learning.recording import relative_change
from cofem.learning.stopping import Verdict
from cofem.mri.image.edge_prior import EdgeLearner, EdgePrior
from cofem.mri.image.edges import Edges
from cofem.mri.image.options import HISTORY, ImageOptions, Progress
from cofem.mri.image.phase import (
    FREE_ITERATIONS,
    HELD_ITERATIONS,
    held_small,
    smoothed_phase,
    turned_back,
)
from cofem.mri.image.phase_field import Cosines, PhaseBlock, PhaseField
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.image.settling import Window, is_steady
from cofem.mri.scanner.encoding import Encoding

LEARNING, REPORTING = 0, 1  # streams of random numbers
SINGLE = float(np.finfo(np.float32).eps)  # residuals below it are rounding
LEAST_GRADIENT = 1e-4  # of images of size one: far below every noise that is learned


@dataclass
class Learned:
    """Where EM stands: mean (I, P), prior, noise (L,), in the scaled units of the data."""

    mean: Array
    prior: EdgePrior
    noise_std: Array
    history: dict[str, list[Any]]
    verdict: Verdict = Verdict.MEAN_NOT_SETTLED
    phase: PhaseBlock | None = None  # what the last mean was found with


class ImageModel:
    """EM for one set of k-space data, scaled so that images are about one.

    Parameters
    ----------
    encoding : Encoding
    projected, power : array (I, P), array (L,)
        Φᴴ y as real images, in double precision, and ‖y‖² of every contrast.
    options : ImageOptions
    seed : int
    centered : bool
        The middle of the images is at index 0.
    smooth : boolean array (L,), optional
        Which contrasts have a smooth phase that is to be found; None: none.
    first : array (I, P), optional
        Where the images start; None: at ``projected``.
    turned : bool
        The encoding has the phase in it; else one is looked for.
    """

    def __init__(
        self,
        encoding: Encoding,
        projected: Array,
        power: Array,
        options: ImageOptions,
        seed: int,
        centered: bool = True,
        smooth: np.ndarray | None = None,
        first: Array | None = None,
        turned: bool = False,
    ) -> None:
        xp = backend.namespace(projected)
        self.encoding, self.options, self.seed = encoding, options, seed
        self._smooth = np.zeros(len(encoding.samples), bool) if smooth is None else smooth
        # Where the phase is known the imaginary parts are nearly zero, and two small matrices at a
        # pixel, half the work, do for one. Not while it is looked for (error × 1.5 on a phantom).
        apart = encoding.n_parts if turned and self._smooth.all() else 1
        self.edges = Edges(encoding.shape, projected.shape[0], apart)
        self._learner = EdgeLearner(
            self.edges, options.coupling, options.shrinkage, options.ties, encoding.n_parts
        )
        self._projected, self._power = projected, power
        self._image = xp.astype(projected, xp.float32)
        self._first = self._image if first is None else xp.astype(first, xp.float32)
        samples = np.maximum(np.asarray(encoding.samples, dtype=float), 1.0)
        self._samples = backend.from_numpy(samples, projected)
        self.products = 0
        self.phase: Array | None = None  # of complex images, (L, P): what was turned away
        self._field: PhaseField | None = None
        if self._smooth.any() and not turned:
            waves = Cosines(encoding.shape, centered)
            self._field = PhaseField(waves, self._smooth, self._image)

    def learn(
        self,
        noise_std: Array | None,
        callback: Callable[[Progress], None] | None = None,
        most_noise: Array | None = None,
    ) -> Learned:
        """Run EM; ``noise_std`` (L,) is kept where it is given, in scaled units.

        ``most_noise`` (L,) is what the noise may be at most where it is learned.
        The noise starts high and falls, by EM where it is learned and by halves where it
        is given: the first systems, whose prior is poor, are then easy to solve.
        """
        began, options = time.perf_counter(), self.options
        xp, state = backend.namespace(self._image), self._first_state(noise_std)
        field, window = self._field, Window()
        free = 0 if field is None else FREE_ITERATIONS
        for iteration in range(options.max_iter):
            if iteration == free > 0:  # what moved before says nothing of how settled the new are
                state, window = self._restarted(state, noise_std), Window()
            noise, phase = state.noise_std, None
            if field is not None and iteration >= free:
                phase = field.block(state.mean, self._known(state))
            matrix = self.precision(state.prior, noise, phase=phase)
            rows, steps = self._estep(matrix, state.mean, iteration)
            images, state.phase = matrix.turned(rows), phase
            change = relative_change([images[0, ...]], [state.mean])
            state.mean = images[0, ...]
            next_noise = self._next_noise(noise_std, noise, state.mean, images[1:, ...])
            if noise_std is None and most_noise is not None:
                next_noise = xp.minimum(next_noise, xp.maximum(most_noise, noise / 2))
                next_noise = xp.maximum(next_noise, 0 * noise + options.least_noise)
            self._record(state, iteration, change, noise, steps, time.perf_counter() - began)
            if callback is not None:
                callback(Progress(iteration + 1, options.max_iter, change, steps))
            steady = iteration >= free and is_steady(noise, next_noise)
            verdict = window.settled(state.mean, change, options.tol)
            if (verdict is not None and steady) or iteration + 1 == options.max_iter:
                state.verdict = verdict if verdict and steady else Verdict.MEAN_NOT_SETTLED
                break
            draws = matrix.images(rows)[1:, ...]
            if field is not None and phase is not None:
                self._turn(field.moved(phase, matrix.coefficients(rows)), state)
            state.noise_std = next_noise
            held = free <= iteration < free + HELD_ITERATIONS
            state.prior = self._learned(state.mean, draws, self._floor(next_noise), held)
        return state

    def precision(
        self,
        prior: EdgePrior,
        noise_std: Array,
        strength: float = 1.0,
        phase: PhaseBlock | None = None,
    ) -> ImagePrecision:
        """Return Q, with the prior's part multiplied by ``strength``."""
        factor = 2 / self.encoding.by_image(noise_std)[:, None] ** 2
        return ImagePrecision(self.encoding, self.edges, prior, factor, strength, phase=phase)

    def draws(
        self, matrix: ImagePrecision, number: int, seed: int, block: int, rtol: float
    ) -> Array:
        """Draw images minus their mean, as rows (S, …)."""
        random = Random(seed, REPORTING, block)
        pushes = matrix.pushes(random, number, self._image)
        found = matrix.solve(pushes, None, rtol, self.options.max_cg_steps)
        self.products += 2 * found.rows * len(self._samples)
        return found.x

    # -- the parts of an iteration -------------------------------------------------------

    def _restarted(self, state: Learned, noise_std: Array | None) -> Learned:
        """Turn away the phase of what was found so far, and begin again with what is left.

        The first iterations are there for the phase: the fully sampled centre does not know
        it well enough, and what was learned of the edges with a wrong one is in the way.
        """
        turn = smoothed_phase(state.mean, self.encoding.shape)
        chosen = backend.from_numpy(self._smooth, turn)[:, None]
        xp = backend.namespace(turn)
        self._turn(xp.where(chosen, turn, xp.ones_like(turn)), state)
        again = self._first_state(noise_std)
        again.history = state.history
        return again

    def _known(self, state: Learned) -> Array:
        """Return the precision that the data give a pixel of a smooth image, (L,)."""
        xp = backend.namespace(state.mean)
        half = state.mean.shape[0] // 2
        u = xp.concat([state.mean[:half, :], 0 * state.mean[half:, :]])
        seen = self.encoding.gram(u[None, ...], xp.ones_like(u[:, :1]))[0, ...]
        power = self.encoding.by_contrast(xp.sum(u**2, axis=1))
        share = self.encoding.by_contrast(xp.sum(u * seen, axis=1))
        return 2 / state.noise_std**2 * share / xp.where(power > 0, power, 1 + 0 * power)

    def _turn(self, turn: Array, state: Learned) -> None:
        """Divide the images by ``turn`` (L, P), and have the encoding multiply by it.

        The model stays the same, for any phase is allowed. But a phase that varies makes
        gradients everywhere, and without it the imaginary parts are nearly zero, which the
        prior learns: conjugate symmetry then adds data, as for real images.
        """
        self.phase = turn if self.phase is None else self.phase * turn
        self.encoding = self.encoding.turned(turn)
        self._projected = turned_back(self._projected[None, ...], turn)[0, ...]
        self._image = turned_back(self._image[None, ...], turn)[0, ...]
        self._first = turned_back(self._first[None, ...], turn)[0, ...]
        state.mean = turned_back(state.mean[None, ...], turn)[0, ...]

    def _learned(self, mean: Array, draws: Array, floor: Array, held: bool) -> EdgePrior:
        if held and self._smooth.any():
            mean = held_small(mean[None, ...], self._smooth)[0, ...]
            draws = held_small(draws, self._smooth)
        return self._learner.learn(mean, draws, floor)

    def _floor(self, noise_std: Array) -> Array:
        return (self.options.floor * self.encoding.by_image(noise_std)) ** 2

    def _first_state(self, noise_std: Array | None) -> Learned:
        xp = backend.namespace(self._image)
        device = backend.device_of(self._image)
        noise = xp.full(
            (len(self._samples),), self.options.first_noise, dtype=xp.float32, device=device
        )
        if noise_std is not None:
            noise = xp.maximum(noise, noise_std)
        g = self.edges.gradient(self._first[None, ...])
        apart, axes = self.edges.n_apart, self.edges.n_axes
        squares = xp.reshape(backend.abs_squared(g), (apart, self.edges.size, axes, -1))
        level = xp.reshape(xp.mean(squares, axis=(1, 2)), (-1,))
        # An image without any gradient must not have a prior of no width.
        level = xp.maximum(level, 0 * level + LEAST_GRADIENT**2)
        none = self._image[None, ...][:0, ...]
        if self._smooth.any():
            level = held_small(level[None, :, None] ** 0.5, self._smooth)[0, :, 0] ** 2
        prior = self._learned(self._first, none, level, held=True)
        return Learned(self._first, prior, noise, {name: [] for name in HISTORY})

    def _estep(self, matrix: ImagePrecision, mean: Array, iteration: int) -> tuple[Array, int]:
        """Return the mean and the draws as rows, (1 + S, …), and the CG steps."""
        xp, options = backend.namespace(mean), self.options
        random = Random(self.seed, LEARNING, iteration)
        pushes = matrix.pushes(random, options.n_draws, self._image)
        data = matrix.pulled((matrix.factor * self._image)[None, ...])
        row = matrix.row_of(mean)
        # At high noise precision Φᴴy/σ² is so large that a residual which is small beside
        # it can be all there is where nothing was measured: the prior's pull is the scale.
        pull, size = matrix.size(matrix.prior_force(row)), matrix.size(data)
        tolerance = options.mean_rtol * min(pull / size, 1.0) if size > 0 else 1.0
        tolerance = max(tolerance, SINGLE)  # a constant image is not pulled at all
        found = matrix.solve(
            xp.concat([data, pushes]),
            xp.concat([row, xp.zeros_like(pushes)]),
            np.array([tolerance] + [options.draw_rtol] * options.n_draws),
            options.max_cg_steps,
        )
        self.products += 2 * found.rows * len(self._samples)
        return found.x, int(np.max(found.steps))

    def _next_noise(self, given: Array | None, noise: Array, mean: Array, draws: Array) -> Array:
        """EM: N σ² = ‖y − Φμ‖² + E‖Φ(x − μ)‖², summed in double precision."""
        xp = backend.namespace(mean)
        if given is not None:
            return xp.maximum(given, noise / 2)
        residual = self._power + self._quadratic(mean[None, ...], with_data=True)
        residual = xp.maximum(residual, 0 * residual)
        spread = self._quadratic(draws, with_data=False) / max(draws.shape[0], 1)
        learned = xp.astype(((residual + spread) / self._samples) ** 0.5, noise.dtype)
        least = xp.full_like(noise, self.options.least_noise)
        return xp.maximum(xp.maximum(learned, least), 0.35 * noise)

    def _quadratic(self, x: Array, with_data: bool) -> Array:
        """Σ_s ‖Φx‖² of every contrast, minus 2 Re⟨x, Φᴴy⟩ where the data are wanted."""
        xp = backend.namespace(x)
        x = xp.astype(x, self._projected.dtype)
        one = xp.ones_like(self._projected[:, :1])
        image = self.encoding.gram(x, one)
        if with_data:
            image = image - 2 * self._projected
        return self.encoding.by_contrast(xp.sum(x * image, axis=(0, 2)))

    def _record(
        self,
        state: Learned,
        iteration: int,
        change: float,
        noise: Array,
        steps: int,
        seconds: float,
    ) -> None:
        noise = backend.to_numpy(noise).astype(float)
        values = (iteration + 1, change, noise, steps, self.products, seconds)
        for name, value in zip(HISTORY, values, strict=True):
            state.history[name].append(value)
