"""The only package that knows array libraries apart.

Everything else asks for a namespace (the array API standard) and for the few
things that the standard does not carry: random signs, the DCT, constants that
follow an array to its device, and how much parallel work a library wants.
"""

from cofem.backend.array_types import Array, Namespace, SameArray
from cofem.backend.arrays import (
    Cache,
    Constant,
    abs_squared,
    as_number,
    column,
    complex_dtype,
    conj,
    copy_into,
    device_of,
    done_there,
    from_numpy,
    functions_of,
    is_array,
    is_complex,
    is_numpy,
    library,
    namespace,
    real,
    real_dtype,
    require_same_home,
    squared_size,
    to_numpy,
)
from cofem.backend.device_memory import device_memory_left, is_out_of_memory, named_if_full
from cofem.backend.launches import Later, forget_engines, has_engine, in_one_launch, is_recording
from cofem.backend.machine import (
    ARRAYS_OF_A_BATCH,
    Device,
    devices,
    few_blas_threads,
    n_threads,
    physical_memory,
    rows_at_once,
    steps_between_looks,
)
from cofem.backend.numerics import (
    erfcx,
    group_means,
    inverse_cholesky,
    places_of,
)
from cofem.backend.products import MaskedTransform, even_odd
from cofem.backend.random import Random, seed_from
from cofem.backend.transforms import dct, dctn, fft_module, idct, idctn

__all__ = [
    "ARRAYS_OF_A_BATCH",
    "Array",
    "Cache",
    "Constant",
    "Device",
    "Later",
    "MaskedTransform",
    "Namespace",
    "Random",
    "SameArray",
    "abs_squared",
    "as_number",
    "column",
    "complex_dtype",
    "conj",
    "copy_into",
    "dct",
    "dctn",
    "device_memory_left",
    "device_of",
    "devices",
    "done_there",
    "erfcx",
    "even_odd",
    "few_blas_threads",
    "fft_module",
    "forget_engines",
    "from_numpy",
    "functions_of",
    "group_means",
    "has_engine",
    "idct",
    "idctn",
    "in_one_launch",
    "inverse_cholesky",
    "is_array",
    "is_complex",
    "is_numpy",
    "is_out_of_memory",
    "is_recording",
    "library",
    "n_threads",
    "named_if_full",
    "namespace",
    "physical_memory",
    "places_of",
    "real",
    "real_dtype",
    "require_same_home",
    "rows_at_once",
    "seed_from",
    "squared_size",
    "steps_between_looks",
    "to_numpy",
]
