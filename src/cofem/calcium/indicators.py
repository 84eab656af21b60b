"""Published kinetics of calcium indicators, and the delay that a kernel leaves out.

The decay times are those that people give to deconvolution, in vivo, for the trains of
spikes that cells fire; a single spike at low expression decays faster. They are where
the search for a cell's own decay time starts. The rise times say how late a response
without rise would be.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import scipy.signal

# For an indicator that nobody named: the rise of the GCaMPs in use.
GENERIC_RISE = 0.05
# The grid on which the delay of a kernel is computed: steps of this share of a rise, for so many
# decays, of which no more than so many rises matter; a model's rise stays below its decay.
STEPS_PER_RISE, DECAYS, RISES, BELOW_DECAY = 64, 6, 200, 0.99


class Indicator(NamedTuple):
    """Kinetics of an indicator.

    Attributes
    ----------
    tau_d, tau_r : float
        Decay and rise time, in seconds.
    source : str
        Where they are from.

    Examples
    --------
    >>> INDICATORS["GCaMP6s"].tau_d
    1.5
    """

    tau_d: float
    tau_r: float
    source: str


_SUITE2P = "decay: suite2p's recommended tau; "
_CHEN = "rise: Chen et al., Nature 2013 (50–75, 75–100, 100–150 ms to peak for 6f, 6m, 6s)"
_LBM = "decay: as collected in the LBM-Suite2p-Python manual after {}; "
_AKERBOOM = (
    "decay: half-decay times of Akerboom et al., J. Neurosci. 2012, fig. 8 (520, 510, 570 ms "
    "for GCaMP3, 5G, 5K), divided by ln 2; rise: half-rise times of about 100 ms, Zhang et "
    "al., Nature 2023"
)
_DANA = _LBM.format("Dana et al., Nat. Methods 2019") + "rise: as for GCaMP6"
_ZHANG = _LBM.format("Zhang et al., Nature 2023") + "rise: half-rise times below 10 ms, ibid."

_FITTED = (
    "medians of the decay and rise times that deconvolve finds in eight recordings of {}, as "
    "collected by Rupprecht et al., Nat. Neurosci. 2021"
)
_LIKE = "{}; decay and rise as for {}, for want of a figure for spikes in vivo"

INDICATORS: Mapping[str, Indicator] = MappingProxyType(
    {
        "GCaMP6f": Indicator(0.7, 0.05, _SUITE2P + _CHEN),
        "GCaMP6m": Indicator(1.0, 0.07, _SUITE2P + _CHEN),
        "GCaMP6s": Indicator(1.5, 0.10, _SUITE2P + _CHEN),
        "jGCaMP7f": Indicator(0.45, 0.05, _DANA),
        "jGCaMP7s": Indicator(1.0, 0.07, _DANA),
        "jGCaMP7c": Indicator(0.8, 0.07, _DANA),
        "jGCaMP7b": Indicator(0.8, 0.07, _DANA + "; decay as for 7c, for want of a figure"),
        "jGCaMP8f": Indicator(0.25, 0.01, _ZHANG),
        "jGCaMP8m": Indicator(0.3, 0.01, _ZHANG),
        "jGCaMP8s": Indicator(0.5, 0.01, _ZHANG),
        "GCaMP3": Indicator(0.75, 0.08, _AKERBOOM),
        "GCaMP5G": Indicator(0.75, 0.08, _AKERBOOM),
        "GCaMP5K": Indicator(0.8, 0.08, _AKERBOOM),
        "OGB-1": Indicator(
            0.8, 0.01, "a synthetic dye without delay; decay between those of GCaMP6f and 6m"
        ),
        "Cal-520": Indicator(
            0.8, 0.01, _LIKE.format("Tada et al., Eur. J. Neurosci. 2014", "OGB-1")
        ),
        "jRGECO1a": Indicator(0.7, 0.03, _FITTED.format("Dana et al., eLife 2016")),
        "jRCaMP1a": Indicator(0.7, 0.03, _LIKE.format("Dana et al., eLife 2016", "jRGECO1a")),
        "R-CaMP1.07": Indicator(
            0.7, 0.03, _LIKE.format("Ohkura et al., PLoS ONE 2012", "jRGECO1a")
        ),
        "XCaMP": Indicator(0.25, 0.03, _FITTED.format("XCaMP-Gf, Inoue et al., Cell 2019")),
    }
)


def _plain(name: str) -> str:
    """Strip what people write differently: case, hyphens, the j, an AAV's prefix."""
    letters = "".join(c for c in name.lower() if c.isalnum())
    return letters.removeprefix("j").replace("gcamp", "g").replace("gc", "g")


_BY_PLAIN_NAME = {_plain(name): name for name in INDICATORS} | {
    "ogb": "OGB-1",
    "xcampgf": "XCaMP",
    "xcampg": "XCaMP",
    "geco1a": "jRGECO1a",  # as the file names of the database have it
}


def indicator_named(name: str) -> Indicator:
    """Return the kinetics of an indicator, however its name is written.

    Examples
    --------
    >>> indicator_named("gcamp6f").tau_d
    0.7
    >>> indicator_named("GCaMP8f") is indicator_named("jGCaMP8f")
    True
    >>> indicator_named("GCaMP9x")
    Traceback (most recent call last):
    ValueError: indicator 'GCaMP9x' is not in the table; expected one of GCaMP6f, GCaMP6m, ...
    """
    if not isinstance(name, str):
        raise TypeError(f"indicator must be a name, got {type(name).__name__}")
    found = _BY_PLAIN_NAME.get(_plain(name))
    if found is None:
        raise ValueError(
            f"indicator {name!r} is not in the table; expected one of {', '.join(INDICATORS)}, "
            "or leave it out: the decay time is then found from the data"
        )
    return INDICATORS[found]


@functools.lru_cache(maxsize=256)
def latency(tau_d: float, tau_r_model: float, tau_r: float) -> float:
    """Return by how many seconds events of a model come late.

    The indicator rises with ``tau_r``; a model whose kernel rises with ``tau_r_model``
    (0: at once) puts its event where its kernel covers the response best, which is
    where the correlation of the two kernels peaks.

    Examples
    --------
    >>> round(latency(tau_d=0.7, tau_r_model=0.0, tau_r=0.05), 3)
    0.034
    >>> latency(tau_d=0.7, tau_r_model=0.05, tau_r=0.05)
    0.0
    """
    if tau_r <= tau_r_model:
        return 0.0
    step = tau_r / STEPS_PER_RISE
    # A decay of many rises is as good as none: the peak lies near the rise.
    t = np.arange(math.ceil(DECAYS * min(tau_d, RISES * tau_r) / step)) * step

    def kernel(rise: float) -> np.ndarray:
        decay = np.exp(-t / tau_d)
        return np.asarray(
            decay if rise == 0 else decay - np.exp(-t / min(rise, BELOW_DECAY * tau_d))
        )

    overlap = scipy.signal.fftconvolve(kernel(tau_r), kernel(tau_r_model)[::-1])[len(t) - 1 :]
    return float(np.argmax(overlap)) * step
