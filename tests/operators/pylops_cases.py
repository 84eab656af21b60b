"""One small instance of every PyLops operator that is its adjoint's adjoint."""

from __future__ import annotations

import inspect

import numpy as np
import pylops
import pylops.avo.avo
import pylops.avo.poststack
import pylops.avo.prestack
import pylops.medical
import pylops.waveeqprocessing as waves
from pylops import signalprocessing as sp

rng = np.random.default_rng(3)
F, C = "float64", "complex128"
REAL = rng.standard_normal((5, 7))
COMPLEX = REAL + 1j * rng.standard_normal((5, 7))
WAVELET = np.array([0.2, 1.0, -0.5, 0.1, 0.05])
BETWEEN = np.array([0.5, 2.3, 4.7, 6.1])
T6, H5 = np.arange(6) * 0.004, np.arange(5) * 10.0
REFLECTIVITY = rng.standard_normal((3, 4, 5)) + 1j * rng.standard_normal((3, 4, 5))
VELOCITY = np.full((8, 9), 1000.0)


def travel_times():
    x, z = np.arange(6) * 4.0, np.arange(7) * 4.0
    t = np.arange(40) * 0.002
    sources = receivers = np.array([[4.0, 12.0], [0.0, 0.0]])
    return waves.Kirchhoff(z, x, t, sources, receivers, 1000.0, WAVELET, 2, mode="analytic")


CASES = {
    # -- what they are made of
    "MatrixMult": lambda: pylops.MatrixMult(REAL),
    "MatrixMult-complex": lambda: pylops.MatrixMult(COMPLEX, dtype=C),
    "MatrixMult-otherdims": lambda: pylops.MatrixMult(REAL, otherdims=(2,)),
    "Identity": lambda: pylops.Identity(6, 8),
    "Zero": lambda: pylops.Zero(3, 4),
    "Diagonal": lambda: pylops.Diagonal(np.arange(1.0, 6.0)),
    "Diagonal-complex": lambda: pylops.Diagonal(COMPLEX[0], dtype=C),
    "Transpose": lambda: pylops.Transpose((3, 4), (1, 0)),
    "Flip": lambda: pylops.Flip((3, 4), axis=1),
    "Roll": lambda: pylops.Roll(7, shift=2),
    "Pad": lambda: pylops.Pad((3, 4), ((1, 0), (2, 1))),
    "Sum": lambda: pylops.Sum((3, 4), axis=0),
    "Symmetrize": lambda: pylops.Symmetrize(5),
    "Spread": lambda: pylops.Spread(
        (3, 5), (4, 6), table=rng.uniform(0, 5, (3, 5, 4))
    ),
    "Restriction": lambda: pylops.Restriction(9, [1, 4, 8]),
    "Regression": lambda: pylops.Regression(np.arange(6.0), 2),
    "LinearRegression": lambda: pylops.LinearRegression(np.arange(6.0)),
    "CausalIntegration": lambda: pylops.CausalIntegration(8, sampling=0.5, kind="trapezoidal"),
    "FirstDerivative": lambda: pylops.FirstDerivative(12),
    "SecondDerivative": lambda: pylops.SecondDerivative((4, 5), axis=1),
    "Laplacian": lambda: pylops.Laplacian((5, 6)),
    "Gradient": lambda: pylops.Gradient((5, 6)),
    "FirstDirectionalDerivative": lambda: pylops.FirstDirectionalDerivative(
        (5, 6), np.array([0.6, 0.8])
    ),
    "SecondDirectionalDerivative": lambda: pylops.SecondDirectionalDerivative(
        (5, 6), np.array([0.6, 0.8])
    ),
    "Smoothing1D": lambda: pylops.Smoothing1D(3, 9),
    "Smoothing2D": lambda: pylops.Smoothing2D((3, 3), (5, 6)),
    "SmoothingND": lambda: pylops.SmoothingND((3, 3, 3), (4, 5, 4)),
    "FunctionOperator": lambda: pylops.FunctionOperator(
        lambda x: REAL @ x, lambda y: REAL.T @ y, 5, 7
    ),
    "VStack": lambda: pylops.VStack([pylops.MatrixMult(REAL), pylops.Identity(7)]),
    "HStack": lambda: pylops.HStack([pylops.MatrixMult(REAL), pylops.Identity(5)]),
    "Block": lambda: pylops.Block([[pylops.Identity(3), pylops.Zero(3, 2)]]),
    "BlockDiag": lambda: pylops.BlockDiag([pylops.MatrixMult(REAL), pylops.Identity(3)]),
    "Kronecker": lambda: pylops.Kronecker(pylops.Identity(3), pylops.MatrixMult(REAL)),
    # -- linear over the reals only
    "Real": lambda: pylops.Real(6, dtype=C),
    "Imag": lambda: pylops.Imag(6, dtype=C),
    "Conj": lambda: pylops.Conj(6, dtype=C),
    # -- signals
    "FFT": lambda: sp.FFT(8, dtype=C),
    "FFT-real": lambda: sp.FFT(8, real=True, dtype=F),
    "FFT-real-odd": lambda: sp.FFT(7, real=True, dtype=F),
    "FFT-real-padded": lambda: sp.FFT(7, nfft=12, real=True, dtype=F),
    "FFT-real-scipy": lambda: sp.FFT((3, 8), axis=1, real=True, engine="scipy", dtype=F),
    "FFT-real-ortho": lambda: sp.FFT(8, real=True, norm="ortho", dtype=F),
    "FFT-real-forward": lambda: sp.FFT(8, real=True, norm="1/n", dtype=F),
    "FFT-real-single": lambda: sp.FFT(8, real=True, dtype="float32"),
    "FFT2D": lambda: sp.FFT2D((4, 6), dtype=C),
    "FFT2D-real": lambda: sp.FFT2D((4, 6), real=True, dtype=F),
    "FFTND": lambda: sp.FFTND((2, 3, 4), dtype=C),
    "FFTND-real": lambda: sp.FFTND((2, 3, 4), axes=(0, 1, 2), real=True, dtype=F),
    "Shift": lambda: sp.Shift(9, 1.5, real=True),
    "Shift-complex": lambda: sp.Shift(9, 1.5, real=False, dtype=C),
    "DCT": lambda: sp.DCT((3, 4), type=2),
    "DWT": lambda: sp.DWT(16, wavelet="haar", level=2),
    "DWT2D": lambda: sp.DWT2D((8, 8), wavelet="haar", level=1),
    "DWTND": lambda: sp.DWTND((4, 4, 4), wavelet="haar", level=1),
    "Convolve1D": lambda: sp.Convolve1D(9, WAVELET, offset=2),
    "Convolve2D": lambda: sp.Convolve2D((6, 7), REAL[:3, :3], offset=(1, 1)),
    "ConvolveND": lambda: sp.ConvolveND((4, 5, 4), np.ones((3, 3, 3)), offset=(1, 1, 1)),
    "NonStationaryConvolve1D": lambda: sp.NonStationaryConvolve1D(
        9, np.stack([WAVELET, 2 * WAVELET]), ih=(2, 6)
    ),
    "NonStationaryConvolve2D": lambda: sp.NonStationaryConvolve2D(
        (9, 9), rng.standard_normal((2, 2, 3, 3)), ihx=(2, 6), ihz=(2, 6)
    ),
    "NonStationaryConvolve3D": lambda: sp.NonStationaryConvolve3D(
        (7, 7, 7), rng.standard_normal((2, 2, 2, 3, 3, 3)), ihx=(2, 4), ihy=(2, 4), ihz=(2, 4)
    ),
    "NonStationaryFilters1D": lambda: sp.NonStationaryFilters1D(
        rng.standard_normal(9), 5, ih=(2, 6)
    ),
    "NonStationaryFilters2D": lambda: sp.NonStationaryFilters2D(
        rng.standard_normal((9, 9)), (3, 3), ihx=(2, 6), ihz=(2, 6)
    ),
    "Interp": lambda: sp.Interp(9, BETWEEN, kind="linear")[0],
    "Interp-sinc": lambda: sp.Interp(9, BETWEEN, kind="sinc")[0],
    "InterpCubicSpline": lambda: sp.InterpCubicSpline(9, BETWEEN),
    "Bilinear": lambda: sp.Bilinear(np.array([[0.5, 2.2], [1.5, 3.1]]), (5, 6)),
    "Fredholm1": lambda: sp.Fredholm1(REFLECTIVITY, nz=2, dtype=C),
    "Fredholm1-saved": lambda: sp.Fredholm1(REFLECTIVITY.real.copy(), nz=2, saveGt=True, dtype=F),
    "Radon2D": lambda: sp.Radon2D(
        T6, H5, np.linspace(-1e-4, 1e-4, 4), kind="linear", centeredh=True, interp=True,
        onthefly=False, engine="numpy",
    ),
    "Radon3D": lambda: sp.Radon3D(
        T6, H5, H5, np.linspace(-1e-4, 1e-4, 3), np.linspace(-1e-4, 1e-4, 3), kind="linear",
        centeredh=True, interp=True, onthefly=False, engine="numpy",
    ),
    "ChirpRadon2D": lambda: sp.ChirpRadon2D(np.arange(7) * 0.004, np.arange(-2, 3) * 10.0, 1e-3),
    "ChirpRadon3D": lambda: sp.ChirpRadon3D(
        np.arange(7) * 0.004, np.arange(-1, 2) * 10.0, np.arange(-1, 2) * 10.0, (1e-3, 1e-3)
    ),
    "FourierRadon2D": lambda: sp.FourierRadon2D(
        T6, H5, np.linspace(-1e-3, 1e-3, 4), 8, kind="linear"
    ),
    "FourierRadon3D": lambda: sp.FourierRadon3D(
        T6, H5[:3], H5[:3], np.linspace(-1e-3, 1e-3, 3), np.linspace(-1e-3, 1e-3, 3), 8,
        kind=("linear", "linear"),
    ),
    "Patch2D": lambda: sp.Patch2D(
        pylops.MatrixMult(rng.standard_normal((9, 4))), (4, 4), (5, 5), (3, 3), (1, 1), (2, 2)
    ),
    "Patch3D": lambda: sp.Patch3D(
        pylops.MatrixMult(rng.standard_normal((27, 4))), (2, 4, 4), (5, 5, 5), (3, 3, 3),
        (1, 1, 1), (1, 2, 2),
    ),
    "Sliding1D": lambda: sp.Sliding1D(pylops.Identity(4), 12, 10, 4, 1, tapertype="hanning"),
    "Sliding2D": lambda: sp.Sliding2D(pylops.Identity(12), (12, 3), (10, 3), 4, 1),
    "Sliding3D": lambda: sp.Sliding3D(
        pylops.MatrixMult(rng.standard_normal((18, 4))), (8, 2, 1), (6, 6, 2), (3, 3), (1, 1),
        (1, 1),
    ),
    "Seislet": lambda: sp.Seislet(np.zeros((8, 5)), sampling=(10.0, 0.004)),
    "PWSprayer2D": lambda: sp.PWSprayer2D((5, 6), np.zeros((5, 6)), radius=2),
    "PWSmoother2D": lambda: sp.PWSmoother2D((5, 6), np.zeros((5, 6)), radius=2),
    # -- applications
    "AVOLinearModelling": lambda: pylops.avo.avo.AVOLinearModelling(
        np.array([0.0, 10.0, 20.0]), np.full(6, 0.5), nt0=6
    ),
    "PoststackLinearModelling": lambda: pylops.avo.poststack.PoststackLinearModelling(
        WAVELET, nt0=8
    ),
    "PrestackLinearModelling": lambda: pylops.avo.prestack.PrestackLinearModelling(
        WAVELET, np.array([0.0, 10.0, 20.0]), vsvp=0.5, nt0=8
    ),
    "MDC": lambda: waves.MDC(REFLECTIVITY, nt=5, nv=1, dt=0.004, dr=1.0, twosided=True),
    "PhaseShift": lambda: waves.PhaseShift(
        1000.0, 20.0, 7, np.fft.rfftfreq(7, 0.004), np.fft.fftshift(np.fft.fftfreq(5, 10.0))
    ),
    "BlendingContinuous": lambda: waves.BlendingContinuous(
        6, 3, 3, 0.004, np.array([0.0, 0.012, 0.018])
    ),
    "BlendingGroup": lambda: waves.BlendingGroup(
        6, 3, 4, 0.004, np.array([[0.0, 0.004], [0.008, 0.004]]), group_size=2, n_groups=2
    ),
    "BlendingHalf": lambda: waves.BlendingHalf(
        6, 3, 4, 0.004, np.array([[0.0, 0.004], [0.008, 0.004]]), group_size=2, n_groups=2
    ),
    "PressureToVelocity": lambda: waves.PressureToVelocity(
        12, 12, 0.004, 10.0, 1000.0, 1500.0, critical=90.0, ntaper=3
    ),
    "UpDownComposition2D": lambda: waves.UpDownComposition2D(
        12, 12, 0.004, 10.0, 1000.0, 1500.0, critical=90.0, ntaper=3
    ),
    "Kirchhoff": travel_times,
    "MRI2D": lambda: pylops.medical.MRI2D((6, 8), mask="vertical-uni", nlines=3, perc_center=0.25),
}  # fmt: skip

# These need libraries that are not everywhere, or another kind of array.
ELSEWHERE = {
    "AcousticWave2D": "devito",
    "CT2D": "astra",
    "DTCWT": "dtcwt",
    "JaxOperator": "arrays of JAX",
    "TorchOperator": "arrays of torch",
    "ToCupy": "arrays of CuPy",
    "UDCT": "curvelets",
    "LinearOperator": "the base class",
    "MemoizeOperator": "its rmatvec gives back x for y = Op x, which is no adjoint: refused",
}


def public_classes() -> set[str]:
    """Return the names of all operator classes that PyLops makes public."""
    found = set()
    for module in (pylops, sp, waves, pylops.avo.avo, pylops.medical):
        for name, thing in vars(module).items():
            if inspect.isclass(thing) and issubclass(thing, pylops.LinearOperator):
                found.add(name)
    return found
