"""What a reconstruction gives back, and how it is kept in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cofem import backend
from cofem.files import atomic_write, read_archive

FORMAT = "cofem reconstruction 1"

Sampler = Callable[[int, int], np.ndarray]
"""From a number and a seed to draws of the images minus their mean, in the user's units."""

Limit = Callable[[float], np.ndarray]
"""From a radius in pixels to the amplitude of a disc that would be noticed."""


@dataclass(frozen=True)
class Reconstruction:
    """The posterior of the images, in the user's units.

    Attributes
    ----------
    image : array (L, H, W)
        The posterior mean; complex unless ``real=True``.
    std : array (L, H, W)
        Posterior standard deviation, √E|x − mean|².
    precision : array (H, W)
        The edge map that the contrasts share: one over the mean prior variance of the
        gradient at a pixel. Small on edges. (Zeros where nothing had to be learned.)
    noise_std : array (L,)
        √E|ε|² of the complex noise on k-space, learned or given.
    history : dict of lists
        iteration, change, noise_std, cg_steps, products, seconds.
    converged : bool
    message : str
        How it ended, and what to do if it did not converge.
    phase : tuple of str
        What was assumed of the phase of every contrast, "smooth" or "none"; empty for
        real images.
    model : str
        "image", "gradient", or "none" where k-space was fully sampled.

    Examples
    --------
    >>> from cofem import mri
    >>> x = mri.phantom((32, 32), n_contrasts=1)
    >>> found = mri.reconstruct(mri.to_kspace(x), real=True)
    >>> found.image.shape, found.model, bool(np.allclose(found.image, x))
    ((1, 32, 32), 'none', True)
    """

    image: np.ndarray
    std: np.ndarray
    precision: np.ndarray
    noise_std: np.ndarray
    history: dict[str, list[Any]]
    converged: bool
    model: str
    _sampler: Sampler = field(repr=False)
    message: str = ""
    phase: tuple[str, ...] = ()
    _limit: Limit | None = field(default=None, repr=False)

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Draw ``n`` images from the posterior, (n, L, H, W)."""
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        return self.image + self._sampler(int(n), int(seed))

    def detection_limit(self, radius: float) -> np.ndarray:
        """Return how strong a thing must be at every pixel to be noticed, like ``image``'s size.

        A disc (in three dimensions a ball) of this radius, in pixels, whose amplitude is below
        the limit may be in the object without a trace in the image: the data could not tell it
        from noise and from what else is there. At the limit it is overlooked in one case of
        twenty, by a test that is wrong in one place of twenty where there is nothing. Discs
        above the limit are noticed: they are in the image, or the interval there is wider.
        The limit is in the units of the image, (L, H, W).

        Examples
        --------
        >>> from cofem import mri
        >>> x = mri.phantom((32, 32), n_contrasts=1)
        >>> mask = mri.power_rule_mask(x.shape, factor=2, power=4, seed=0)
        >>> found = mri.reconstruct(mri.to_kspace(x) * mask, mask, real=True)
        >>> small, large = found.detection_limit(1.0), found.detection_limit(3.0)
        >>> small.shape, bool(small.mean() > large.mean())
        ((1, 32, 32), True)
        """
        if not radius >= 0 or not np.isfinite(radius):
            raise ValueError(f"radius must be a number of pixels, got {radius!r}")
        if self._limit is None:
            raise ValueError(
                "the detection limit is known for reconstructions of undersampled data with "
                'model="image", and not for those from a file'
            )
        return self._limit(float(radius))

    def save(self, path: Any) -> None:
        """Write everything but the means to draw further samples, and for limits, to an .npz.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from cofem import mri
        >>> found = mri.reconstruct(mri.to_kspace(mri.phantom((16, 16))), real=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "head.npz"
        ...     found.save(file)
        ...     again = mri.Reconstruction.load(file)
        >>> bool(np.array_equal(again.image, found.image)), again.message == found.message
        (True, True)
        """
        arrays = {name: backend.to_numpy(getattr(self, name)) for name in _ARRAYS}
        for name, values in self.history.items():
            arrays[f"history_{name}"] = np.asarray(values, dtype=np.float64)
        about = {"format": FORMAT, "model": self.model, "converged": self.converged,
                 "message": self.message, "phase": list(self.phase)}  # fmt: skip
        arrays["about"] = np.asarray(json.dumps(about))
        with atomic_write(path) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Any) -> Reconstruction:
        """Read what :meth:`save` wrote; ``sample`` needs the data and is not there."""
        arrays = read_archive(path, "path")
        try:
            about = json.loads(str(arrays["about"]))
            if about["format"] != FORMAT:
                raise ValueError(f"the format is {about['format']!r}")
            history = {
                name.removeprefix("history_"): list(values)
                for name, values in arrays.items()
                if name.startswith("history_")
            }
            return cls(
                image=arrays["image"],
                std=arrays["std"],
                precision=arrays["precision"],
                noise_std=arrays["noise_std"],
                history=history,
                converged=bool(about["converged"]),
                model=str(about["model"]),
                _sampler=_no_sampler,
                message=str(about["message"]),
                phase=tuple(about["phase"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"path: {path} is no saved reconstruction ({error})") from None

    def __repr__(self) -> str:
        shape = " × ".join(str(side) for side in self.image.shape)
        noise = ", ".join(f"{value:.3g}" for value in self.noise_std)
        return (
            f"Reconstruction({shape}, model={self.model!r}, noise_std=[{noise}], "
            f"iterations={len(self.history['iteration'])}, converged={self.converged})"
        )


_ARRAYS = ("image", "std", "precision", "noise_std")


def _no_sampler(number: int, seed: int) -> np.ndarray:
    raise ValueError("a reconstruction from a file has no samples: draw them before saving it")
