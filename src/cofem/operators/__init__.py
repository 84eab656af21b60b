"""Linear operators for Φ and R; they work on rows of arrays of any library."""

from cofem.operators.adapters import as_operator, from_functions, from_physics
from cofem.operators.algebra import Restriction, block_diagonal, hstack, kronecker, stack
from cofem.operators.autoregressive import Autoregressive
from cofem.operators.base import LinearOperator
from cofem.operators.checks import check_adjoint
from cofem.operators.convolution import Convolution
from cofem.operators.dct import DCT
from cofem.operators.dense import Dense
from cofem.operators.differences import FiniteDifference
from cofem.operators.elementary import Diagonal, Identity
from cofem.operators.fourier import Fourier
from cofem.operators.nufft import NUFFT
from cofem.operators.row_split import RowSplit
from cofem.operators.smoothing import Smoothing
from cofem.operators.sparse import Sparse
from cofem.operators.toeplitz import Hankel, Toeplitz
from cofem.operators.tomography import radon
from cofem.operators.wavelet import Wavelet

__all__ = [
    "DCT",
    "NUFFT",
    "Autoregressive",
    "Convolution",
    "Dense",
    "Diagonal",
    "FiniteDifference",
    "Fourier",
    "Hankel",
    "Identity",
    "LinearOperator",
    "Restriction",
    "RowSplit",
    "Smoothing",
    "Sparse",
    "Toeplitz",
    "Wavelet",
    "as_operator",
    "block_diagonal",
    "check_adjoint",
    "from_functions",
    "from_physics",
    "hstack",
    "kronecker",
    "radon",
    "stack",
]
