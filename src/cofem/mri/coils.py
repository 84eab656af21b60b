"""Coil sensitivities from the measured centre of k-space."""

from __future__ import annotations

from typing import Any

import numpy as np


def coil_sensitivities(kspace: Any, calibration: int = 24) -> np.ndarray:
    """Estimate sensitivities by ESPIRiT (Uecker et al. 2014), through SigPy.

    Parameters
    ----------
    kspace : array (coils, H, W) or (L, coils, H, W), centred
        Its central ``calibration`` × ``calibration`` block must be fully sampled. Of several
        contrasts the first is used.
    calibration : int
        Side of that block.

    Returns
    -------
    array (coils, H, W)
        Complex; their squares sum to one inside the object and they are zero outside.

    Examples
    --------
    >>> coil_sensitivities(np.zeros((8, 8)))
    Traceback (most recent call last):
    ValueError: kspace has shape (8, 8); expected (coils, H, W)
    """
    try:
        from sigpy.mri.app import EspiritCalib
    except ImportError:
        raise ImportError(
            "ESPIRiT is SigPy's: pip install sigpy, or give sensitivities of your own"
        ) from None
    y = np.asarray(kspace)
    if y.ndim == 4:
        y = y[0]
    if y.ndim != 3:
        raise ValueError(f"kspace has shape {y.shape}; expected (coils, H, W)")
    found = EspiritCalib(y.astype(np.complex64), calib_width=calibration, show_pbar=False).run()
    return np.asarray(found, dtype=np.complex128)
