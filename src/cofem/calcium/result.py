"""What deconvolution returns: spikes, how sure they are, and how they were found."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cofem.calcium.cell import advanced, transformed
from cofem.calcium.kernel import kernel_from_times
from cofem.files import atomic_write
from cofem.inference.filtered_mode import Face, nonnegative_least_squares
from cofem.inference.rectified import probability_of_zero, rectified_quantile
from cofem.linalg import banded

EVENT = np.dtype(
    [
        ("cell", np.int64),
        ("time", np.float64),
        ("amplitude", np.float64),
        ("low", np.float64),
        ("high", np.float64),
        ("probability", np.float64),
    ]
)


@dataclass(frozen=True, eq=False)
class Deconvolution:
    """Posterior of the spikes of cells. Arrays over frames have the shape of dff.

    Amplitudes are heights of the response in log(1 + dF/F): 0.1 is an event that raises
    fluorescence by a tenth (with ``response="linear"``, by 0.1 of dF/F).

    Attributes
    ----------
    spikes : ndarray
        The best estimate per frame: the positive part of the posterior mode.
    mean, std : ndarray
        Of the rectified posterior.
    prob_active : ndarray
        1 − P(z = 0): the probability that there is an event, calibrated on the trace
        turned upside down.
    denoised, baseline : ndarray
        The fit with its baseline, and the baseline alone, in dF/F.
    precision : ndarray
        Prior precision of every frame's event, in the frames of the model.
    noise_std, tau_d, tau_r, latency : float or ndarray (n_cells,)
        Noise (log(1 + dF/F)), decay and rise time of the kernel, and by how much the
        events were advanced, in seconds.
    converged : bool or ndarray (n_cells,)
    history : dict of lists
        For every cell: iterations, change, log_evidence.
    messages : dict of int to str
        What there is to say about single cells; empty when all is well.
    framerate : float
    response : str

    Examples
    --------
    >>> from cofem.calcium import deconvolve, simulate
    >>> result = deconvolve(simulate(n_cells=2, n_frames=600)[0], framerate=30.0, n_jobs=1)
    >>> result.spikes.shape, result.tau_d.shape
    ((2, 600), (2,))
    >>> result.events().dtype.names
    ('cell', 'time', 'amplitude', 'low', 'high', 'probability')
    """

    spikes: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    prob_active: np.ndarray
    denoised: np.ndarray
    baseline: np.ndarray
    precision: np.ndarray
    noise_std: Any
    tau_d: Any
    tau_r: Any
    latency: Any
    converged: Any
    history: dict[str, list[float]]
    messages: dict[int, str]
    framerate: float
    response: str
    dff: np.ndarray = field(repr=False)

    def events(self, probability: float = 0.5, level: float = 0.95) -> np.ndarray:
        """Return the events as a table, cell by cell and in order of time.

        An event is a frame, or two neighbouring frames between which it is shared; of
        two, the amplitude is the sum, the time the mean, the probability the larger.

        Parameters
        ----------
        probability : float
            The least ``prob_active`` of an event.
        level : float
            Of the interval of the amplitude.

        Returns
        -------
        structured ndarray
            Columns cell, time (seconds from the first frame), amplitude, low, high,
            probability. ``pandas.DataFrame(result.events())`` works.

        Examples
        --------
        >>> from cofem.calcium import deconvolve, simulate
        >>> dff, spikes = simulate(n_cells=1, n_frames=900, seed=3)
        >>> table = deconvolve(dff, 30.0, n_jobs=1).events()
        >>> table.dtype.names
        ('cell', 'time', 'amplitude', 'low', 'high', 'probability')
        >>> bool(np.all((table["low"] <= table["amplitude"]) & (table["probability"] >= 0.5)))
        True
        """
        for name, value in (("probability", probability), ("level", level)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be between 0 and 1, got {value!r}")
        rows = [np.empty(0, EVENT)]
        for i in range(self.n_cells):
            row = self._row(i)
            kept = np.flatnonzero((row["prob_active"] >= probability) & (row["spikes"] > 0))
            if len(kept):
                rows.append(self._table(i, kept, level))
        return np.concatenate(rows)

    def filtered_mode(self, q: float = 0.05) -> np.ndarray:
        """Return the paper's estimate, in the shape of dff.

        Frames with ½ erfc(μ/√(2Σ)) < q are kept, and non-negative ridge regression on
        them gives the amplitudes; all others are zero.

        Examples
        --------
        >>> from cofem.calcium import deconvolve, simulate
        >>> dff, spikes = simulate(n_cells=1, n_frames=900, seed=3)
        >>> estimate = deconvolve(dff[0], 30.0).filtered_mode()
        >>> bool(np.all(estimate >= 0)), estimate.shape
        (True, (900,))
        """
        if not 0 < q < 1:
            raise ValueError(f"q must be between 0 and 1, got {q!r}")
        rows = [self._filtered_row(i, q) for i in range(self.n_cells)]
        return np.stack(rows).reshape(self.spikes.shape).astype(self.spikes.dtype, copy=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all arrays to one .npz file, atomically."""
        arrays: dict[str, Any] = {
            item.name: np.asarray(getattr(self, item.name))
            for item in fields(self)
            if item.name not in ("history", "messages", "dff")
        }
        arrays |= {f"history_{key}": np.asarray(value) for key, value in self.history.items()}
        arrays["message_cells"] = np.array(list(self.messages), dtype=np.int64)
        arrays["message_texts"] = np.array(list(self.messages.values()), dtype=np.str_)
        with atomic_write(path) as stream:
            np.savez_compressed(stream, **arrays)

    @property
    def n_cells(self) -> int:
        """The number of cells; 1 for a single trace."""
        return 1 if self.spikes.ndim == 1 else len(self.spikes)

    def posterior_of_z(self, cell: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n,) of a cell's Gaussian posterior before rectification.

        In heights of the response and in the frames of the model, that is before events
        are advanced by ``latency``.
        """
        kernel, x, beta, alpha = self._model(cell)
        found = banded.moments(kernel.coefficients, x, alpha, beta)
        return kernel.peak * found.mean, kernel.peak**2 * found.variance

    def __repr__(self) -> str:
        events = len(self.events()) if self.n_cells <= 1000 else "many"
        done = int(np.count_nonzero(self.converged))
        return (
            f"Deconvolution({self.n_cells} cells, {self.spikes.shape[-1]} frames at "
            f"{self.framerate:g} Hz; {events} events; {done} of {self.n_cells} converged)"
        )

    # -- one cell ----------------------------------------------------------------------

    def _row(self, i: int) -> dict[str, Any]:
        names = (
            "spikes", "mean", "std", "prob_active", "denoised", "baseline", "precision", "dff",
        )  # fmt: skip
        row: dict[str, Any] = {name: np.atleast_2d(getattr(self, name))[i] for name in names}
        for name in ("noise_std", "tau_d", "tau_r", "latency"):
            row[name] = float(np.atleast_1d(getattr(self, name))[i])
        return row

    def _model(self, i: int) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return kernel, trace, noise precision and prior precision of a cell."""
        row = self._row(i)
        if not math.isfinite(row["tau_d"]):
            raise ValueError(
                f"cell {i} has no recursion: it was not fitted, or with a measured kernel"
            )
        kernel = kernel_from_times(row["tau_d"], row["tau_r"], self.framerate)
        x = transformed(row["dff"], row["baseline"], self.response)
        seen = np.isfinite(x)
        beta = np.where(seen, row["noise_std"] ** -2.0, 0.0)
        return kernel, np.where(seen, x, 0.0), beta, row["precision"].astype(np.float64)

    def _fitted(self, i: int) -> bool:
        noise = float(np.atleast_1d(self.noise_std)[i])
        return math.isfinite(noise) and noise > 0

    def _table(self, i: int, frames: np.ndarray, level: float) -> np.ndarray:
        row = self._row(i)
        groups = neighbours(frames)
        first = np.searchsorted(groups, np.arange(groups[-1] + 1))
        spikes = row["spikes"][frames].astype(np.float64)
        total = np.add.reduceat(spikes, first)
        table = np.empty(len(first), EVENT)
        table["cell"] = i
        table["amplitude"] = total
        table["probability"] = np.maximum.reduceat(row["prob_active"][frames], first)
        # Arrays are moved by whole frames, times by the latency itself.
        shift = round(row["latency"] * self.framerate)
        centre = np.add.reduceat(spikes * frames, first) / total
        table["time"] = (centre + shift) / self.framerate - row["latency"]
        if math.isfinite(row["tau_d"]):
            mean, variance = self.posterior_of_z(i)
            mean = np.add.reduceat(mean[frames + shift], first)
            # Neighbours share what the data say: their sum is known no worse than this.
            variance = np.add.reduceat(variance[frames + shift], first)
            for name, p in (("low", (1 - level) / 2), ("high", (1 + level) / 2)):
                table[name] = rectified_quantile(mean, variance, p)
        else:  # a measured kernel: the moments are all that is kept
            reach = rectified_quantile(np.zeros(1), np.ones(1), level)[0]
            mean = np.add.reduceat(row["mean"][frames], first)
            spread = np.sqrt(np.add.reduceat(row["std"][frames] ** 2, first))
            table["low"] = np.maximum(mean - reach * spread, 0.0)
            table["high"] = mean + reach * spread
        return table

    def _filtered_row(self, i: int, q: float) -> np.ndarray:
        if not self._fitted(i):
            return np.asarray(self._row(i)["spikes"], dtype=np.float64)
        kernel, x, beta, alpha = self._model(i)
        found = banded.moments(kernel.coefficients, x, alpha, beta)
        kept = np.asarray(probability_of_zero(found.mean, found.variance) < q)

        def face(free: np.ndarray) -> Face:
            pinned = np.where(free, alpha, np.inf)
            dual = banded.dual(kernel.coefficients, x, pinned, beta)
            return Face(np.where(free, dual / alpha, 0.0), np.where(free, 0.0, dual))

        curvature = float(beta.max()) * kernel.norm**2 + alpha
        z = nonnegative_least_squares(face, kept, curvature, 1e-12)
        shift = round(self._row(i)["latency"] * self.framerate)
        return advanced(kernel.peak * z, shift, 0.0)


def neighbours(frames: np.ndarray) -> np.ndarray:
    """Return group numbers of rising frames: two that follow each other are a group.

    Examples
    --------
    >>> neighbours(np.array([3, 4, 5, 9]))
    array([0, 0, 1, 2])
    """
    groups = np.zeros(len(frames), np.int64)
    paired = False
    for k in range(1, len(frames)):
        paired = not paired and bool(frames[k] - frames[k - 1] == 1)
        groups[k] = groups[k - 1] + (not paired)
    return groups
