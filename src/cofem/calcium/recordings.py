"""Recordings with electrically recorded spikes, as .npz files in a folder.

Every file holds ``dff`` (n,) as a fraction, ``fs_hz``, ``t0_s`` (frame i is at
t0 + i/fs seconds), ``spike_times_s``, ``spike_counts`` (n,) and ``indicator``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Recording(NamedTuple):
    """One cell, seen and heard.

    Attributes
    ----------
    name : str
    dff : ndarray (n,)
        In double precision.
    framerate : float
    spike_times : ndarray
        Seconds from the first frame.
    spikes : ndarray (n,)
        1 in frames with a spike, 0 in others.
    indicator : str
    """

    name: str
    dff: np.ndarray
    framerate: float
    spike_times: np.ndarray
    spikes: np.ndarray
    indicator: str


def load_recordings(folder: Any) -> list[Recording]:
    """Read all recordings with spikes in a folder, or in its subfolder calcium/.

    Examples
    --------
    >>> load_recordings("no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: no recordings with spike_times_s in no/such/folder
    """
    folder = Path(folder)
    if (folder / "calcium").is_dir():
        folder = folder / "calcium"
    found = [_read(path) for path in sorted(folder.glob("*.npz"))]
    recordings = [recording for recording in found if recording is not None]
    if not recordings:
        raise FileNotFoundError(f"no recordings with spike_times_s in {folder}")
    return recordings


def _read(path: Path) -> Recording | None:
    with np.load(path, allow_pickle=False) as file:
        if not {"dff", "fs_hz", "spike_times_s", "spike_counts"} <= set(file.files):
            return None
        start = float(file["t0_s"]) if "t0_s" in file.files else 0.0
        return Recording(
            name=path.stem,
            dff=file["dff"].astype(np.float64),
            framerate=float(file["fs_hz"]),
            spike_times=file["spike_times_s"].astype(np.float64) - start,
            spikes=(file["spike_counts"] > 0).astype(np.float64),
            indicator=str(file["indicator"]) if "indicator" in file.files else "",
        )
