"""What deconvolution returns: spikes, how sure they are, and how they were found."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from scipy.special import ndtri

from cofem.calcium.half_cauchy import result as banded_result
from cofem.calcium.jumps.counting import in_words, interval, split
from cofem.calcium.jumps.states import noise_at_30
from cofem.files import atomic_write

# A repr counts the events of no more cells than these: it must be quick.
CELLS_COUNTED = 1000
OVER_FRAMES = (
    "spikes", "mean", "std", "prob_active", "denoised", "baseline", "precision", "spike_counts",
    "denoised_std",
)  # fmt: skip
PER_CELL = (
    "noise_std", "tau_d", "tau_r", "latency", "converged", "curvature", "spike_size",
    "size_spread", "at_limit",
)  # fmt: skip
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

    Attributes
    ----------
    spikes : ndarray
        The best estimate per frame, as height of the response in dF/F: the expected height
        of a frame's jumps, in much noise also under a second view, of smaller and more
        frequent ones (under "banded" the positive part of the posterior mode, in the logarithm).
    mean, std : ndarray
        Of the posterior of the height of a frame's jumps alone.
    prob_active : ndarray
        The probability that there is a jump in the frame. A jump's frame is seldom certain,
        so that several frames share the probability of one: ``events`` adds them up.
    spike_counts : ndarray
        The expected number of spikes per frame: ``mean / spike_size``, reduced by the share of
        jumps of that height that are no spikes. NaN under "banded".
    denoised, denoised_std, baseline : ndarray
        The fit with its baseline, its standard deviation, and the level of silence, in dF/F.
    precision : ndarray
        Prior precision of every frame's event, in the frames of the model; NaN for jumps.
    noise_std, tau_d, tau_r, latency : float or ndarray (n_cells,)
        Noise of a frame, decay and rise time, and by how much the events were advanced, in
        seconds.
    curvature : float or ndarray (n_cells,)
        By how much a spike's response grows per dF/F that is already there: 0 is linear, less than
        0 saturates.
    spike_size : float or ndarray (n_cells,)
        Height of one spike from rest, in dF/F, known to a factor of two (``count_interval``).
    size_spread : float or ndarray (n_cells,)
        Standard deviation of the logarithm of ``spike_size``: how uncertain numbers of spikes are.
    at_limit : bool or ndarray (n_cells,)
        Whether the decay time is at an end of the search: the trace does not determine it.
    converged : bool or ndarray (n_cells,)
    history : dict of lists
        For every cell: iterations, change, log_evidence.
    messages : dict of int to str
        Warnings about single cells; empty if there are none.
    framerate : float
    response, model : str
        What ran: "auto", "log" or "linear"; "jumps", "banded" or "cofem".

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
    spike_counts: np.ndarray
    denoised_std: np.ndarray
    noise_std: Any
    tau_d: Any
    tau_r: Any
    latency: Any
    curvature: Any
    spike_size: Any
    size_spread: Any
    at_limit: Any
    converged: Any
    history: dict[str, list[float]]
    messages: dict[int, str]
    framerate: float
    response: str
    model: str
    dff: np.ndarray = field(repr=False)

    def events(self, probability: float = 0.5, level: float = 0.95) -> np.ndarray:
        """Return the events as a table, cell by cell and in order of time.

        Frames that share a jump are one event; where more than one spike is expected the
        event is listed as often as its number of spikes is probable, each with the
        probability that there are so many. (Under "banded" an event is a frame, or two
        neighbours.)

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
        rows = [self._events_of(i, probability, level) for i in range(self.n_cells)]
        return np.concatenate([np.empty(0, EVENT), *rows])

    def count_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest number of spikes of every cell.

        The sum of ``spike_counts`` is as uncertain as the size of one spike, which the trace
        determines to a factor of two. Where most are lost in the noise the interval is that of
        what cells usually fire, to a factor of three.

        Examples
        --------
        >>> from cofem.calcium import deconvolve, simulate
        >>> dff, spikes = simulate(n_cells=2, n_frames=900, seed=3)
        >>> low, high = deconvolve(dff, 30.0, n_jobs=1).count_interval()
        >>> bool(np.all((low < spikes.sum(axis=1)) & (spikes.sum(axis=1) < high)))
        True
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        total = np.atleast_2d(self.spike_counts).sum(axis=1)
        seconds = self.spikes.shape[-1] / self.framerate
        return interval(total, seconds, np.atleast_1d(self.size_spread), level)

    def counts_in_words(self, cell: int = 0) -> str:
        """Return a sentence: how many spikes a cell had, and how sure the size of one is.

        Examples
        --------
        >>> from cofem.calcium import deconvolve, simulate
        >>> dff, spikes = simulate(n_cells=1, n_frames=900, seed=3)
        >>> text = deconvolve(dff, 30.0, n_jobs=1).counts_in_words()
        >>> text.startswith("About 38 spikes, between 9.6 and 150 with 95 % probability")
        True
        """
        total = float(np.atleast_2d(self.spike_counts)[cell].sum())
        size = float(np.atleast_1d(self.spike_size)[cell])
        if not (np.isfinite(total) and size > 0):
            return "Numbers of spikes are not estimated here; heights are in spikes and events."
        low, high = (float(x[cell]) for x in self.count_interval())
        spread = float(np.atleast_1d(self.size_spread)[cell])
        return in_words((total, low, high), size, spread)

    def filtered_mode(self, q: float = 0.05) -> np.ndarray:
        """Return the paper's estimate, in the shape of dff.

        Frames with ½ erfc(μ/√(2Σ)) < q are kept, and non-negative ridge regression on
        them gives the amplitudes; all others are zero. For method="banded".

        Examples
        --------
        >>> from cofem.calcium import deconvolve, simulate
        >>> dff, spikes = simulate(n_cells=1, n_frames=900, seed=3)
        >>> estimate = deconvolve(dff[0], 30.0, method="banded").filtered_mode()
        >>> bool(np.all(estimate >= 0)), estimate.shape
        (True, (900,))
        """
        if not 0 < q < 1:
            raise ValueError(f"q must be between 0 and 1, got {q!r}")
        rows = [banded_result.filtered_row(self, i, q) for i in range(self.n_cells)]
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
        are advanced by ``latency``. For method="banded".
        """
        return banded_result.posterior_of_z(self, cell)

    def __repr__(self) -> str:
        events = len(self.events()) if self.n_cells <= CELLS_COUNTED else "many"
        done = int(np.count_nonzero(self.converged))
        return (
            f"Deconvolution({self.n_cells} cells, {self.spikes.shape[-1]} frames at "
            f"{self.framerate:g} Hz; {events} events; {done} of {self.n_cells} converged)"
        )

    # -- one cell ----------------------------------------------------------------------

    def row(self, i: int) -> dict[str, Any]:
        """Return what belongs to cell i: arrays (n_frames,) and numbers, by name."""
        names = (*OVER_FRAMES, "dff")
        row: dict[str, Any] = {name: np.atleast_2d(getattr(self, name))[i] for name in names}
        for name in PER_CELL:
            row[name] = float(np.atleast_1d(getattr(self, name))[i])
        return row

    def _events_of(self, i: int, probability: float, level: float) -> np.ndarray:
        row = self.row(i)
        if self.model == "jumps":
            return self._jump_events(i, row, probability, level)
        kept = np.flatnonzero((row["prob_active"] >= probability) & (row["spikes"] > 0))
        if len(kept) == 0:
            return np.empty(0, EVENT)
        table = np.empty(len(banded_result.first_frames(kept)), EVENT)
        table["cell"] = i
        banded_result.fill_table(table, self, i, kept, level)
        return table

    def _jump_events(
        self, i: int, row: dict[str, Any], probability: float, level: float
    ) -> np.ndarray:
        if not row["spike_size"] > 0:
            return np.empty(0, EVENT)
        active, mean = row["prob_active"].astype(float), row["mean"].astype(float)
        unit, size = noise_at_30(row["noise_std"], self.framerate), row["spike_size"]
        # Counts are heights by the size of a spike, times the share that is real.
        real = np.divide(row["spike_counts"] * size, mean, out=np.ones_like(mean), where=mean > 0)
        frame, chance, segment = split(active, mean / unit, real, size / unit, self.framerate)
        kept = chance >= probability
        frame, chance, segment = frame[kept], chance[kept], segment[kept]
        table = np.empty(len(frame), EVENT)
        table["cell"] = i
        table["time"] = frame / self.framerate
        table["probability"] = chance
        # The events of a segment share its height, and what is not known of it.
        starts, number = np.unique(segment[:, 0], return_counts=True)
        where = np.searchsorted(starts, segment[:, 0])
        shared = number[where]
        height = np.concatenate([[0.0], np.cumsum(mean)])
        square = np.concatenate([[0.0], np.cumsum(row["std"].astype(float) ** 2)])
        first, last = segment[:, 0], segment[:, 1]
        table["amplitude"] = (height[last] - height[first]) / shared
        reach = ndtri((1 + level) / 2) * np.sqrt(square[last] - square[first]) / shared
        table["low"] = np.maximum(table["amplitude"] - reach, 0.0)
        table["high"] = table["amplitude"] + reach
        return table
