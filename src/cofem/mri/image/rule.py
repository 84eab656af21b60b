"""The site rule of the model ``image``: edges, noise and phase, as the common loop learns them.

The sites are the whole precision Q = β ΦᴴΦ + Rᵀ T R: a matrix T at every pixel, the noise, and the
unknowns of the phase. Between two iterations the phase that was found is divided out of the images,
and then unknowns, operator and last mean change together: :meth:`ImageRule.starts` returns the mean
in the new unknowns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from cofem import backend
from cofem.backend import Array
from cofem.learning.loop import iterate
from cofem.learning.moments.gaussian import Moments
from cofem.learning.recording import IterationState, relative_change
from cofem.learning.stopping import Verdict
from cofem.mri.image.edge_prior import EdgePrior
from cofem.mri.image.model import ImageModel
from cofem.mri.image.options import HISTORY, Progress
from cofem.mri.image.phase import (
    FREE_ITERATIONS,
    HELD_ITERATIONS,
    held_small,
    smoothed_phase,
    turned_back,
)
from cofem.mri.image.phase_field import PhaseBlock
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.image.settling import Window, is_steady
from cofem.mri.scanner.whiteness import Whiteness

LEAST_GRADIENT = 1e-4  # of images of size one: far below every noise that is learned
# In an iteration the noise falls to this share at most where it is given, and where it is learned.
GIVEN_FALLS, LEARNED_FALLS = 0.5, 0.35
# The prior's standard deviations are widened where more is left of the data than noise: from which
# iteration on, how fast, and the most. (With 1.4, lines at R = 8, σ = 0.1 are worse by a tenth:
# what was never measured follows the noise.) Below NO_NOISE times the least noise none is seen.
FIRST_WIDENED, WIDENING, MOST_WIDENED, NO_NOISE = 7, 0.15, 1.1, 1.01


@dataclass
class Learned:
    """Where EM stands: mean (I, P), prior, noise (L,), in the scaled units of the data."""

    mean: Array
    prior: EdgePrior
    noise_std: Array
    history: dict[str, list[Any]] = field(default_factory=dict)
    verdict: Verdict = Verdict.MEAN_NOT_SETTLED
    phase: PhaseBlock | None = None  # what the last mean was found with
    row: Array | None = None  # the mean in the unknowns of its system, where the phase is apart


def learn(
    model: ImageModel,
    noise_std: Array | None,
    callback: Callable[[Progress], None] | None = None,
    most_noise: Array | None = None,
) -> Learned:
    """Learn edges, noise and phase; ``noise_std`` and ``most_noise`` as for :class:`ImageRule`."""

    def show(state: IterationState) -> None:
        if callback is not None:
            callback(Progress(state.iteration, state.max_iter, state.change, state.cg_steps))

    rule, options = ImageRule(model, noise_std, most_noise), model.options
    found = iterate(None, [model], rule, max_iter=options.max_iter, tol=options.tol, callback=show)
    history: dict[str, list[Any]] = {**found.history, "noise_std": rule.noises}
    learned = rule.learned
    learned.history, learned.verdict = {name: history[name] for name in HISTORY}, found.verdict
    return learned


@final
class ImageRule:
    """Learn the prior of the edges, the noise and the phase of an :class:`ImageModel`.

    Parameters
    ----------
    model : ImageModel
    noise_std : array (L,), optional
        The noise where it is given, in scaled units. It starts high and falls, by EM where it is
        learned and by halves where it is given: the first systems, whose prior is poor, are then
        easy to solve.
    most_noise : array (L,), optional
        What the noise may be at most where it is learned.
    """

    needs_variances = True  # the last draws say whether the noise is steady
    products = 0
    unfinished = Verdict.MEAN_NOT_SETTLED

    def __init__(
        self, model: ImageModel, noise_std: Array | None, most_noise: Array | None = None
    ) -> None:
        self.model, self._given, self._most = model, noise_std, most_noise
        xp, options = backend.namespace(model.first), model.options
        self._white = Whiteness(model.encoding, model.first, model.seed)
        self._start = xp.full(
            (model.n_contrasts,), options.first_noise, dtype=xp.float32,
            device=backend.device_of(model.first),
        )  # fmt: skip
        if noise_std is not None:
            self._start = xp.maximum(self._start, noise_std)
        self._width = self._compared = xp.ones_like(self._start)
        self.learned = self._first_state()
        self.noises: list[np.ndarray] = []
        self._window = Window()
        self._free = 0 if model.field is None else FREE_ITERATIONS
        self._iteration, self._change = 0, np.inf
        self._matrix: ImagePrecision | None = None
        self._solutions: Array = self.learned.mean
        self._next_noise = self.learned.noise_std

    @property
    def alpha(self) -> Array:
        """The mean prior variance of a pixel's gradients."""
        return self.learned.prior.spread

    def starts(self, means: list[Array] | None) -> list[Array] | None:
        """Return the last mean, in the unknowns of the next iteration."""
        return [self.learned.mean]

    def sites(self) -> list[tuple[ImagePrecision, Array | None]]:
        """Return the precision of the images, with the phase among the unknowns."""
        state, field = self.learned, self.model.field
        state.phase = None
        if field is not None and self._iteration >= self._free:
            state.phase = field.block(state.mean, self._known())
        self._matrix = self.model.precision(state.prior, state.noise_std, phase=state.phase)
        return [(self._matrix, None)]

    def absorb(
        self, moments: Sequence[Moments], before: Sequence[Array] | None, random: bool
    ) -> Verdict | None:
        """Take the mean and the draws; return a verdict if neither mean nor noise moves on."""
        state, model = self.learned, self.model
        rows = moments[0].solutions
        if rows is None or self._matrix is None:
            raise TypeError("the rule of the image model learns from the draws of its own E-step")
        self._solutions, noise = rows, state.noise_std
        self._change = relative_change([moments[0].mean], [state.mean])
        state.mean, state.row = moments[0].mean, rows[:1, ...]
        self._next_noise = self._noise_after(noise, self._matrix.turned(rows)[1:, ...])
        self.noises.append(backend.to_numpy(noise).astype(float))
        steady = self._iteration >= self._free and is_steady(noise, self._next_noise)
        verdict = self._window.settled(state.mean, self._change, model.options.tol)
        self._iteration += 1
        return verdict if steady else None

    def advance(self) -> None:
        """Learn the next phase, noise and edges."""
        state, model, matrix = self.learned, self.model, self._matrix
        if model.field is not None and self._iteration == self._free:
            self._restart()
            return
        if matrix is None:
            raise TypeError("the moments come before the next sites")
        draws = matrix.images(self._solutions)[1:, ...]
        if model.field is not None and state.phase is not None:
            self._turn(model.field.moved(state.phase, matrix.coefficients(self._solutions)))
        state.noise_std = self._next_noise
        held = self._free < self._iteration <= self._free + HELD_ITERATIONS
        floor = (model.options.floor * model.encoding.by_image(self._next_noise)) ** 2
        state.prior = self._prior(state.mean, draws, floor, held)

    def facts(self) -> dict[str, Any]:
        """Return the numbers that the sentences of verdicts contain."""
        return {"change": self._change, "tol": self.model.options.tol}

    # -- the parts of an iteration -------------------------------------------------------

    def _restart(self) -> None:
        """Turn away the phase of what was found so far, and begin again with what is left.

        The first iterations are there for the phase: the fully sampled centre does not know
        it well enough, and what was learned of the edges with a wrong one is in the way.
        """
        turn = smoothed_phase(self.learned.mean, self.model.encoding.shape)
        chosen = backend.from_numpy(self.model.smooth, turn)[:, None]
        xp = backend.namespace(turn)
        self._turn(xp.where(chosen, turn, xp.ones_like(turn)))
        self.learned = self._first_state()
        # What moved before says nothing of how settled the new images are.
        self._window = Window()

    def _turn(self, turn: Array) -> None:
        self.model.turn(turn)
        self.learned.mean = turned_back(self.learned.mean[None, ...], turn)[0, ...]

    def _known(self) -> Array:
        """Return the precision that the data give a pixel of a smooth image, (L,)."""
        state, encoding = self.learned, self.model.encoding
        xp = backend.namespace(state.mean)
        half = state.mean.shape[0] // 2
        u = xp.concat([state.mean[:half, :], 0 * state.mean[half:, :]])
        seen = encoding.gram(u[None, ...], xp.ones_like(u[:, :1]))[0, ...]
        power = encoding.by_contrast(xp.sum(u**2, axis=1))
        share = encoding.by_contrast(xp.sum(u * seen, axis=1))
        return 2 / state.noise_std**2 * share / xp.where(power > 0, power, 1 + 0 * power)

    def _prior(self, mean: Array, draws: Array, floor: Array, held: bool) -> EdgePrior:
        if held and self.model.smooth.any():
            mean = held_small(mean[None, ...], self.model.smooth)[0, ...]
            draws = held_small(draws, self.model.smooth)
        wide = self.model.encoding.by_image(self._width)[:, None]
        return self.model.learner.learn(wide * mean, wide * draws, floor)

    def _first_state(self) -> Learned:
        model, first = self.model, self.model.first
        xp = backend.namespace(first)
        g = model.edges.gradient(first[None, ...])
        apart, axes = model.edges.n_apart, model.edges.n_axes
        squares = xp.reshape(backend.abs_squared(g), (apart, model.edges.size, axes, -1))
        level = xp.reshape(xp.mean(squares, axis=(1, 2)), (-1,))
        # An image without any gradient must not have a prior of no width.
        level = xp.maximum(level, 0 * level + LEAST_GRADIENT**2)
        none = first[None, ...][:0, ...]
        if model.smooth.any():
            level = held_small(level[None, :, None] ** 0.5, model.smooth)[0, :, 0] ** 2
        return Learned(first, self._prior(first, none, level, held=True), self._start)

    def _noise_after(self, noise: Array, draws: Array) -> Array:
        """EM: N σ² = ‖y − Φμ‖² + E‖Φ(x − μ)‖²; it falls slowly, and stays within its bounds."""
        model, mean = self.model, self.learned.mean
        xp = backend.namespace(mean)
        own, moved = model.seen(mean[None, ...]), model.seen(draws)
        left = model.projected[None, ...] - own
        if self._given is not None:
            found = xp.maximum(self._given, GIVEN_FALLS * noise)
        else:
            found = self._learned_noise(noise, left, draws * moved)
        self._widen(left, moved, found)
        return found

    def _learned_noise(self, noise: Array, left: Array, spread: Array) -> Array:
        model, mean = self.model, self.learned.mean
        xp, by_contrast = backend.namespace(mean), model.encoding.by_contrast
        both = xp.sum(mean * (left[0, ...] + model.projected), axis=1)  # μᵀ(2Φᴴy − ΦᴴΦμ)
        residual = model.power - by_contrast(both)
        residual = xp.maximum(residual, 0 * residual)
        spread = by_contrast(xp.sum(spread, axis=(0, 2))) / max(spread.shape[0], 1)
        found = xp.astype(((residual + spread) / model.samples) ** 0.5, noise.dtype)
        least = xp.full_like(noise, model.options.least_noise)
        found = xp.maximum(xp.maximum(found, least), LEARNED_FALLS * noise)
        if self._most is None:
            return found
        found = xp.minimum(found, xp.maximum(self._most, GIVEN_FALLS * noise))
        return xp.maximum(found, least)

    def _widen(self, left: Array, moved: Array, noise: Array) -> None:
        """Widen the prior of contrasts of which more is left than noise.

        The noise that this is compared with does not fall again: wider priors take noise for
        images, then there is less noise, and more would be left than that.
        """
        xp = backend.namespace(noise)
        if self._iteration < self._free + FIRST_WIDENED:
            self._compared = noise
            return
        given = self._given is not None
        self._compared = noise if given else xp.maximum(self._compared, noise)
        excess = self._white.excess(left, moved, self._compared)
        step = xp.clip(excess, min=0.5, max=2.0) ** WIDENING
        width = xp.clip(self._width * xp.astype(step, noise.dtype), min=1.0, max=MOST_WIDENED)
        # Data without noise are treated as if they had some: they say nothing of it.
        some = noise > NO_NOISE * self.model.options.least_noise
        self._width = xp.where(some, width, xp.ones_like(width))
