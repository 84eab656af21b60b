"""Calcium imaging: spikes with probabilities from fluorescence.

>>> from cofem.calcium import deconvolve, simulate
>>> dff, spikes = simulate(n_cells=1, n_frames=900, seed=0)
>>> deconvolve(dff, framerate=30.0, n_jobs=1).spikes.shape
(1, 900)
"""

from cofem.calcium.deconvolution import deconvolve
from cofem.calcium.files import read_suite2p, read_traces
from cofem.calcium.indicators import INDICATORS, Indicator
from cofem.calcium.result import Deconvolution
from cofem.calcium.scoring import binned_correlation, detection
from cofem.calcium.simulation import simulate
from cofem.calcium.storage import load_deconvolution
from cofem.calcium.traces import maximin_baseline, to_dff

__all__ = [
    "INDICATORS",
    "Deconvolution",
    "Indicator",
    "binned_correlation",
    "deconvolve",
    "detection",
    "load_deconvolution",
    "maximin_baseline",
    "read_suite2p",
    "read_traces",
    "simulate",
    "to_dff",
]
