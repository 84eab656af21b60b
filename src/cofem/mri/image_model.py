"""The model ``image``: one posterior of the image, edges shared by contrasts and directions.

The precision of the image is Q = β ΦᴴΦ + Rᵀ T R (:mod:`cofem.mri.edges`), T learned by EM
(:mod:`cofem.mri.edge_prior`). An E-step solves for the mean and for a draw or two from the
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
from cofem.mri.edge_prior import EdgeLearner, EdgePrior
from cofem.mri.edges import Edges
from cofem.mri.encoding import Encoding
from cofem.mri.image_precision import ImagePrecision
from cofem.mri.phase import (
    LEAST_TURN,
    PHASE_TURNS,
    PHASE_WIDTH,
    size_of_turn,
    turned_back,
    unit_phase,
)
from cofem.operators import Smoothing

HISTORY = ("iteration", "change", "noise_std", "cg_steps", "products", "seconds")
LEARNING, REPORTING = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class ImageOptions:
    """How the model ``image`` is learned.

    Attributes
    ----------
    max_iter : int
        The most EM iterations.
    tol : float
        Stop when the mean changes by less than this fraction.
    coupling : float
        Width of the neighbourhood that shares second moments, in pixels.
    shrinkage : float
        How far a pixel's covariance is drawn to a diagonal one.
    n_draws : int
        Posterior draws for each M-step.
    mean_rtol : float
        The mean's residual may be this fraction of the prior's pull on it.
    draw_rtol : float
        The draws' residual may be this fraction of their right-hand sides.
    floor : float
        The least standard deviation of a gradient, beside the noise's.
    first_noise, least_noise : float
        Where the noise starts, and the least that is learned, beside the images' level.
    max_cg_steps : int
        The most CG steps of a solve.
    ties : str
        What a pixel's covariance may be; see :class:`cofem.mri.edge_prior.EdgeLearner`.

    Examples
    --------
    >>> ImageOptions(tol=1e-2).tol
    0.01
    """

    max_iter: int = 60
    tol: float = 1e-3
    coupling: float = 0.7
    shrinkage: float = 0.1
    n_draws: int = 1
    mean_rtol: float = 0.02
    draw_rtol: float = 0.1
    floor: float = 0.15
    first_noise: float = 0.08
    least_noise: float = 1.5e-3
    max_cg_steps: int = 500
    ties: str = "tensor"


@dataclass(frozen=True)
class Progress:
    """What a callback sees after every iteration."""

    iteration: int
    max_iter: int
    change: float
    cg_steps: int


@dataclass
class Learned:
    """Where EM stands: mean (I, P), prior, noise (L,), in the scaled units of the data."""

    mean: Array
    prior: EdgePrior
    noise_std: Array
    history: dict[str, list[Any]]
    converged: bool = False


class ImageModel:
    """EM for one set of k-space data, scaled so that images are about one.

    Parameters
    ----------
    encoding : Encoding
    projected : array (I, P)
        Φᴴ y as real images, in double precision.
    power : array (L,)
        ‖y‖² of every contrast.
    options : ImageOptions
    seed : int
    """

    def __init__(
        self, encoding: Encoding, projected: Array, power: Array, options: ImageOptions, seed: int
    ) -> None:
        xp = backend.namespace(projected)
        self.encoding, self.options, self.seed = encoding, options, seed
        self.edges = Edges(encoding.shape, projected.shape[0])
        self._learner = EdgeLearner(
            self.edges, options.coupling, options.shrinkage, options.ties, encoding.n_parts
        )
        self._projected, self._power = projected, power
        self._image = xp.astype(projected, xp.float32)
        samples = np.maximum(np.asarray(encoding.samples, dtype=float), 1.0)
        self._samples = backend.from_numpy(samples, projected)
        self.products = 0
        self.phase: Array | None = None  # of complex images, (L, P): what was turned away
        self._phase_smoother = Smoothing(encoding.shape, PHASE_WIDTH)

    def learn(
        self,
        noise_std: Array | None,
        callback: Callable[[Progress], None] | None = None,
    ) -> Learned:
        """Run EM; ``noise_std`` (L,) is kept where it is given, in scaled units.

        The noise starts high and falls, by EM where it is learned and by halves where it
        is given: the first systems, whose prior is poor, are then easy to solve.
        """
        began, options = time.perf_counter(), self.options
        state = self._first_state(noise_std)
        turns = settled_at = 0
        for iteration in range(options.max_iter):
            noise = state.noise_std
            matrix = self.precision(state.prior, noise)
            mean, draws, steps = self._estep(matrix, state.mean, iteration)
            change = _relative_change(mean, state.mean)
            state.mean, next_noise = mean, self._next_noise(noise_std, noise, mean, draws)
            self._record(state, iteration, change, noise, steps, time.perf_counter() - began)
            if callback is not None:
                callback(Progress(iteration + 1, options.max_iter, change, steps))
            state.converged = _is_steady(noise, next_noise) and _has_settled(
                state.history["change"][settled_at:], options.tol
            )
            if iteration + 1 == options.max_iter:
                break
            if state.converged:
                if turns == PHASE_TURNS or self.encoding.n_parts == 1:
                    break
                turn = unit_phase(self._phase_smoother.forward(state.mean))
                if size_of_turn(turn, state.mean) < LEAST_TURN:
                    break
                turns, settled_at = turns + 1, iteration + 1
                draws = self._turn(turn, state, draws)
            state.noise_std = next_noise
            state.prior = self._learner.learn(state.mean, draws, self._floor(next_noise))
        return state

    def precision(
        self, prior: EdgePrior, noise_std: Array, strength: float = 1.0
    ) -> ImagePrecision:
        """Return Q, with the prior's part multiplied by ``strength``."""
        factor = 2 / self.encoding.by_image(noise_std)[:, None] ** 2
        return ImagePrecision(self.encoding, self.edges, prior, factor, strength)

    def draws(
        self, matrix: ImagePrecision, number: int, seed: int, block: int, rtol: float
    ) -> tuple[Array, Array]:
        """Draw images minus their mean; return them and what was solved, (S, I·P) both."""
        random = Random(seed, REPORTING, block)
        pushes = matrix.pushes(random, number, self._image)
        found = matrix.solve(pushes, None, rtol, self.options.max_cg_steps)
        self.products += 2 * found.rows * len(self._samples)
        return found.x, pushes

    # -- the parts of an iteration -------------------------------------------------------

    def _turn(self, turn: Array, state: Learned, draws: Array) -> Array:
        """Turn complex images until their smooth phase is zero; return the turned draws.

        The model stays the same, for any phase is allowed. But a phase that varies makes
        gradients everywhere, and without it the imaginary parts are nearly zero, which the
        prior learns: conjugate symmetry then adds data, as for real images.
        """
        self.phase = turn if self.phase is None else self.phase * turn
        self.encoding = self.encoding.turned(turn)
        self._projected = turned_back(self._projected[None, ...], turn)[0, ...]
        self._image = turned_back(self._image[None, ...], turn)[0, ...]
        state.mean = turned_back(state.mean[None, ...], turn)[0, ...]
        return turned_back(draws, turn)

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
        g = self.edges.gradient(self._image[None, ...])
        level = xp.mean(backend.abs_squared(g), axis=(0, 1))
        level = xp.mean(xp.reshape(level, (self.edges.n_axes, -1)), axis=0)
        none = self._image[None, ...][:0, ...]
        prior = self._learner.learn(self._image, none, level)
        return Learned(self._image, prior, noise, {name: [] for name in HISTORY})

    def _estep(
        self, matrix: ImagePrecision, mean: Array, iteration: int
    ) -> tuple[Array, Array, int]:
        xp, options = backend.namespace(mean), self.options
        random = Random(self.seed, LEARNING, iteration)
        pushes = matrix.pushes(random, options.n_draws, self._image)
        data = xp.reshape(matrix.factor * self._image, (1, -1))
        row = xp.reshape(mean, (1, -1))
        # At high noise precision Φᴴy/σ² is so large that a residual which is small beside
        # it can be all there is where nothing was measured: the prior's pull is the scale.
        pull, size = matrix.size(matrix.prior_force(row)), matrix.size(data)
        tolerance = options.mean_rtol * min(pull / size, 1.0) if size > 0 else 1.0
        found = matrix.solve(
            xp.concat([data, pushes]),
            xp.concat([row, xp.zeros_like(pushes)]),
            np.array([tolerance] + [options.draw_rtol] * options.n_draws),
            options.max_cg_steps,
        )
        self.products += 2 * found.rows * len(self._samples)
        images = matrix.images(found.x)
        return images[0, ...], images[1:, ...], int(np.max(found.steps))

    def _next_noise(
        self, given: Array | None, noise: Array, mean: Array, draws: Array
    ) -> Array:
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


def _relative_change(new: Array, old: Array) -> float:
    xp = backend.namespace(new)
    size = float(xp.sum(backend.abs_squared(new)))
    return (float(xp.sum(backend.abs_squared(new - old))) / size) ** 0.5 if size > 0 else 0.0


def _has_settled(changes: list[float], tol: float) -> bool:
    """Whether the mean stands still, or moves only because each draw is another one.

    With noise the changes fall to a level that the draws decide and stay there; five
    iterations that bring no more than a tenth are a sign of it.
    """
    if changes[-1] <= tol:
        return True
    return tol > 0 and len(changes) > 10 and min(changes[-2:]) > 0.9 * min(changes[-7:-2])


def _is_steady(old: Array, new: Array) -> bool:
    xp = backend.namespace(new)
    return bool(xp.all(xp.abs(new - old) <= 0.1 * old))
