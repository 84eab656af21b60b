"""Results in files, and results of several batches of cells put together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cofem.calcium.jumps.counting import SIZE_SPREAD
from cofem.calcium.result import OVER_FRAMES, PER_CELL, Deconvolution
from cofem.files import read_archive

_HISTORY = ("iterations", "change", "log_evidence")


def load_deconvolution(path: str | os.PathLike[str], dff: Any = None) -> Deconvolution:
    """Read what :meth:`Deconvolution.save` wrote.

    Parameters
    ----------
    path : path
        The .npz.
    dff : array, optional
        The fluorescence it was made from; without it ``events`` has no intervals to give
        and ``filtered_mode`` no data, and both refuse.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from cofem.calcium import deconvolve, simulate
    >>> result = deconvolve(simulate(n_cells=2, n_frames=300)[0], 30.0, n_jobs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(pathlib.Path(folder, "r.npz"))
    ...     again = load_deconvolution(pathlib.Path(folder, "r.npz"))
    >>> bool(np.array_equal(again.spikes, result.spikes))
    True
    """
    held = read_archive(path, "result")
    if "size_spread" not in held and "spike_size" in held:  # written before it was told
        held["size_spread"] = np.full_like(held["spike_size"], SIZE_SPREAD)
    needed = (*OVER_FRAMES, *PER_CELL, *(f"history_{name}" for name in _HISTORY),
              "message_cells", "message_texts", "framerate", "response", "model")  # fmt: skip
    missing = [name for name in needed if name not in held]
    if missing:
        raise ValueError(f"{path} is no result of deconvolve: it has no {', '.join(missing)}")
    shape = held["spikes"].shape
    odd = [name for name in OVER_FRAMES if held[name].shape != shape]
    odd += [name for name in PER_CELL if held[name].shape != shape[:-1]]
    if odd or not 1 <= len(shape) <= 2:
        raise ValueError(
            f"{path} is damaged: with spikes of shape {shape}, its {odd[0] if odd else 'spikes'} "
            f"cannot have the shape {held[odd[0]].shape if odd else shape}"
        )
    fields: dict[str, Any] = {name: held[name] for name in OVER_FRAMES}
    for name in PER_CELL:
        fields[name] = held[name].item() if len(shape) == 1 else held[name]
    trace = np.full(shape, np.nan) if dff is None else np.asarray(dff)
    if trace.shape != shape:
        raise ValueError(f"dff has shape {trace.shape}; the result in {path} is for {shape}")
    return Deconvolution(
        **fields,
        history={name: list(held[f"history_{name}"]) for name in _HISTORY},
        messages={
            int(i): str(text)
            for i, text in zip(held["message_cells"], held["message_texts"], strict=True)
        },
        framerate=float(held["framerate"]),
        response=str(held["response"]),
        model=str(held["model"]),
        dff=trace,
    )


def join(parts: Sequence[Deconvolution]) -> Deconvolution:
    """Put results of batches of cells, each (n_cells, n_frames), below each other.

    Examples
    --------
    >>> from cofem.calcium import deconvolve, simulate
    >>> dff = simulate(n_cells=2, n_frames=300)[0]
    >>> parts = [deconvolve(dff[i : i + 1], 30.0, n_jobs=1) for i in range(2)]
    >>> join(parts).spikes.shape
    (2, 300)
    """
    first = parts[0]
    fields: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*OVER_FRAMES, *PER_CELL, "dff")
    }
    messages: dict[int, str] = {}
    start = 0
    for part in parts:
        messages |= {start + i: text for i, text in part.messages.items()}
        start += part.n_cells
    return Deconvolution(
        **fields,
        history={
            name: [value for part in parts for value in part.history[name]] for name in _HISTORY
        },
        messages=messages,
        framerate=first.framerate,
        response=first.response,
        model=first.model,
    )
