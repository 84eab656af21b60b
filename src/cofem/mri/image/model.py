"""The model ``image``: one posterior of the image, edges shared by contrasts and directions.

The precision of the image is Q = β ΦᴴΦ + Rᵀ T R (:mod:`cofem.mri.image.edges`), T learned by EM
(:mod:`cofem.mri.image.rule`, :mod:`cofem.mri.image.edge_prior`). The E-step here solves for the
mean and for a draw or two from the posterior; the gradients of the draws stand for the posterior
covariance in the M-step, which averages over neighbours, so that very few suffice.
"""

from __future__ import annotations

import numpy as np

from cofem import backend
from cofem.backend import Array, Random
from cofem.learning.moments.gaussian import Moments
from cofem.mri.image.edge_prior import EdgeLearner, EdgePrior
from cofem.mri.image.edges import Edges
from cofem.mri.image.options import ImageOptions
from cofem.mri.image.phase import turned_back
from cofem.mri.image.phase_field import Cosines, PhaseBlock, PhaseField
from cofem.mri.image.precision import ImagePrecision
from cofem.mri.scanner.encoding import Encoding

LEARNING, REPORTING = 0, 1  # streams of random numbers
SINGLE = float(np.finfo(np.float32).eps)  # residuals below it are rounding


class ImageModel:
    """The data of one set of k-space, scaled so that images are about one, and their E-step.

    Parameters
    ----------
    encoding : Encoding
    projected : array (I, P)
        Φᴴ y as real images, in double precision.
    power : array (L,)
        ‖y‖² of every contrast.
    options : ImageOptions
    seed : int
    centered : bool
        The middle of the images is at index 0.
    smooth : boolean array (L,), optional
        Which contrasts have a smooth phase that is to be found; None: none.
    first : array (I, P), optional
        Where the images start; None: at ``projected``.
    turned : bool
        The phase is already part of the encoding; otherwise one is looked for.
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
        self.smooth = np.zeros(len(encoding.samples), bool) if smooth is None else smooth
        # Where the phase is known, the imaginary parts are nearly zero, and two small matrices at a
        # pixel, which are half the work, can replace the large one. They cannot while the phase is
        # still looked for (error × 1.5 on a phantom).
        apart = encoding.n_parts if turned and self.smooth.all() else 1
        self.edges = Edges(encoding.shape, projected.shape[0], apart)
        self.learner = EdgeLearner(
            self.edges, options.coupling, options.shrinkage, options.ties, encoding.n_parts
        )
        self.projected, self.power = projected, power
        self._image = xp.astype(projected, xp.float32)
        self.first = self._image if first is None else xp.astype(first, xp.float32)
        samples = np.maximum(np.asarray(encoding.samples, dtype=float), 1.0)
        self.samples = backend.from_numpy(samples, projected)
        self.n_contrasts = len(samples)
        self.phase: Array | None = None  # of complex images, (L, P): what was turned away
        self.field: PhaseField | None = None
        if self.smooth.any() and not turned:
            waves = Cosines(encoding.shape, centered)
            self.field = PhaseField(waves, self.smooth, self._image)

    def moments(
        self,
        alpha: ImagePrecision,
        start: Array | None,
        iteration: int,
        last: bool,
        pull: Array | None = None,
    ) -> Moments:
        """Return the mean, and draws among the solutions: the E-step of the common loop.

        The sites ``alpha`` are the whole precision; ``start`` is the image to start from.
        """
        xp, options = backend.namespace(self._image), self.options
        random = Random(self.seed, LEARNING, iteration - 1)
        pushes = alpha.pushes(random, options.n_draws, self._image)
        data = alpha.pulled((alpha.factor * self._image)[None, ...])
        row = alpha.row_of(self.first if start is None else start)
        # At high noise precision Φᴴy/σ² is so large that a residual which is small beside
        # it can be all there is where nothing was measured: the prior's pull is the scale.
        force, size = alpha.size(alpha.prior_force(row)), alpha.size(data)
        tolerance = options.mean_rtol * min(force / size, 1.0) if size > 0 else 1.0
        tolerance = max(tolerance, SINGLE)  # the prior does not pull a constant image at all
        found = alpha.solve(
            xp.concat([data, pushes]),
            xp.concat([row, xp.zeros_like(pushes)]),
            np.array([tolerance] + [options.draw_rtol] * options.n_draws),
            options.max_cg_steps,
        )
        products = 2 * found.rows * self.n_contrasts
        mean = alpha.turned(found.x)[0, ...]
        return Moments(
            mean, None, mean, cg_steps=int(np.max(found.steps)), products=products,
            solutions=found.x,
        )  # fmt: skip

    def precision(
        self,
        prior: EdgePrior,
        noise_std: Array,
        phase: PhaseBlock | None = None,
    ) -> ImagePrecision:
        """Return Q."""
        factor = 2 / self.encoding.by_image(noise_std)[:, None] ** 2
        return ImagePrecision(self.encoding, self.edges, prior, factor, phase=phase)

    def draws(
        self, matrix: ImagePrecision, number: int, seed: int, block: int, rtol: float
    ) -> Array:
        """Draw images minus their mean as rows (2 S, …): S from the noise, S from the prior."""
        xp = backend.namespace(self._image)
        random = Random(seed, REPORTING, block)
        pushes = xp.concat(matrix.pushes_apart(random, number, self._image))
        found = matrix.solve(pushes, None, rtol, self.options.max_cg_steps)
        return found.x

    def turn(self, turn: Array) -> None:
        """Divide the images by ``turn`` (L, P), and have the encoding multiply by it.

        The model stays the same, for any phase is allowed. But a phase that varies makes
        gradients everywhere, and without it the imaginary parts are nearly zero, which the
        prior learns: conjugate symmetry then adds data, as for real images.
        """
        self.phase = turn if self.phase is None else self.phase * turn
        self.encoding = self.encoding.turned(turn)
        self.projected = turned_back(self.projected[None, ...], turn)[0, ...]
        self._image = turned_back(self._image[None, ...], turn)[0, ...]
        self.first = turned_back(self.first[None, ...], turn)[0, ...]

    def seen(self, x: Array) -> Array:
        """ΦᴴΦ x, (S, I, P), in double precision."""
        x = backend.namespace(x).astype(x, self.projected.dtype)
        return self.encoding.gram(x, backend.namespace(x).ones_like(self.projected[:, :1]))
