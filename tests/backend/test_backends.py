"""One table of methods, operators and array libraries: the caller's own arrays come back."""

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cofem
from cofem import backend, simulate
from cofem.operators import DCT, Convolution, Dense, Fourier

D, BETA = 96, 1e3


def to_readonly(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


def to_torch(x):
    import torch

    torch.set_num_threads(1)  # the matrices are small: threads would only wait for each other
    return torch.asarray(np.array(x))


def to_torch_cuda(x):
    import torch

    return torch.asarray(np.array(x), device="cuda")


def to_strict(x):
    import array_api_strict

    return array_api_strict.asarray(np.array(x))


def to_jax(x):
    import jax

    if os.environ.get("JAX_ENABLE_X64") != "0":  # then it has no double precision on purpose
        jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(np.array(x))


def to_cupy(x):
    import cupy

    return cupy.asarray(np.array(x))


CONVERT: dict[str, Any] = {
    "numpy": np.array,
    "readonly": to_readonly,
    "torch": to_torch,
    "torch-cuda": to_torch_cuda,
    "strict": to_strict,
    "jax": to_jax,
    "cupy": to_cupy,
}
PACKAGES = {
    "torch": "torch", "torch-cuda": "torch", "strict": "array_api_strict", "jax": "jax",
    "cupy": "cupy",
}  # fmt: skip


def libraries(*names, slow=()):
    """Parameters for pytest; what is not installed is skipped by name."""
    missing = [
        name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None
    ]
    return [
        pytest.param(
            name,
            marks=[
                pytest.mark.skipif(name in missing, reason=f"{name} is not installed"),
                *([pytest.mark.slow] if name in slow else []),
                *([pytest.mark.cuda] if name in ("cupy", "torch-cuda") else []),
            ],
        )
        for name in names
    ]


@dataclass(frozen=True)
class Case:
    """Φ in a library, data, and the truth."""

    phi: Any
    y: Any
    z: np.ndarray


def make(operator, library, dtype):
    """The same numbers in every library; ``dtype`` is that of the data's real parts."""
    random = np.random.default_rng(11)
    convert = CONVERT[library]
    matrix = random.standard_normal((48, D)) / 48**0.5
    rows = np.sort(random.choice(D, 48, replace=False))
    op = {
        "dense": lambda: Dense(convert(matrix.astype(dtype))),
        "dct": lambda: DCT(D, rows),
        "convolution": lambda: Convolution(0.9 ** np.arange(20), D),
        "fourier": lambda: Fourier(D, np.isin(np.arange(D), rows)),
    }[operator]()
    reference = op if operator != "dense" else Dense(matrix.astype(dtype))
    z = np.zeros(D)
    z[random.choice(D, 6, replace=False)] = random.uniform(1, 3, 6)
    clean = reference.forward(z)
    noise = random.standard_normal(clean.shape) + (
        1j * random.standard_normal(clean.shape) if np.iscomplexobj(clean) else 0
    )
    y = clean + noise / BETA**0.5
    kind = np.result_type(dtype, np.complex64) if np.iscomplexobj(y) else np.dtype(dtype)
    phi = convert(matrix.astype(dtype)) if operator == "dense" else op
    return Case(phi, convert(y.astype(kind)), z)


def fit(case, method, **options):
    options = {"noise_precision": BETA, "max_iter": 20, "tol": 0.0} | options
    return cofem.fit(case.phi, case.y, method=method, **options)


METHODS = ["em", "woodbury", "cofem"]
OPERATORS = ["dense", "dct", "convolution", "fourier"]
# JAX compiles every operation anew for every shape.
OTHERS = libraries("readonly", "torch", "strict", "jax", "cupy", "torch-cuda", slow=("jax",))
EVERY = libraries(*CONVERT)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("method", METHODS)
def test_answers_agree_and_come_in_the_callers_library(method, operator, library, dtype):
    case, reference = make(operator, library, dtype), make(operator, "numpy", dtype)
    before = np.array(backend.to_numpy(case.y))
    ours, theirs = (fit(c, method, prior="ard") for c in (reference, case))
    for name in ("mean", "variance", "std", "variance_error", "precision"):
        value = getattr(theirs, name)
        assert type(value) is type(case.y), name
        assert backend.device_of(value) == backend.device_of(case.y)
    assert theirs.mean.dtype == case.y.dtype
    for name in ("variance", "std", "variance_error", "precision"):
        assert str(getattr(theirs, name).dtype).endswith(dtype), name
    mean, truth = backend.to_numpy(theirs.mean), case.z
    if method == "cofem" and library.startswith("torch"):
        # Random numbers come from torch: the same answer, not the same bits.
        assert abs(simulate.nrmse(mean, truth) - simulate.nrmse(ours.mean, truth)) < 0.3
    else:
        scale = abs(ours.mean).max()
        allowed = {"float32": 2e-3, "float64": 1e-8}[dtype]
        if method == "cofem":
            allowed = {"float32": 2e-3, "float64": 1e-4}[dtype]
        np.testing.assert_allclose(mean, ours.mean, rtol=0, atol=allowed * scale)
    assert simulate.nrmse(mean, truth) < 10
    assert theirs.method == method
    np.testing.assert_array_equal(backend.to_numpy(case.y), before)


@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.parametrize("operator", ["dense", "fourier"])
def test_the_learned_prior_agrees_too(operator, library):
    case, reference = make(operator, library, "float64"), make(operator, "numpy", "float64")
    ours, theirs = (fit(c, "em", prior="mixture", max_iter=40) for c in (reference, case))
    for name in ("mean", "variance", "probability", "pull"):
        value = getattr(theirs, name)
        assert type(value) is type(case.y), name
        expected = getattr(ours, name)
        np.testing.assert_allclose(
            backend.to_numpy(value), expected, rtol=0, atol=1e-6 * abs(expected).max()
        )
    assert theirs.log_evidence == pytest.approx(ours.log_evidence, rel=1e-7)


@pytest.mark.parametrize("library", EVERY)
@pytest.mark.parametrize("operator", ["dense", "dct", "fourier"])
def test_what_the_posterior_offers_stays_in_the_library(library, operator):
    case, reference = make(operator, library, "float64"), make(operator, "numpy", "float64")
    post, numpy_post = fit(case, "em"), fit(reference, "em")
    kind = type(case.y)
    R = np.random.default_rng(0).standard_normal((4, D))
    assert type(post.sample(3, seed=0)) is kind
    assert tuple(post.sample(3, seed=0).shape) == (3, D)
    variance = post.variance_of(CONVERT[library](R))
    assert type(variance) is kind
    np.testing.assert_allclose(backend.to_numpy(variance), numpy_post.variance_of(R), rtol=1e-5)
    centre, spread = post.predict(CONVERT[library](R))
    assert type(centre) is type(spread) is kind
    support = backend.to_numpy(post.support())
    assert support.dtype == bool
    np.testing.assert_array_equal(support, numpy_post.support())
    if operator != "fourier":
        low, high = post.interval()
        assert type(low) is type(high) is kind
    assert len(repr(post)) < 200
    assert post.log_evidence == pytest.approx(numpy_post.log_evidence, rel=1e-9)


@pytest.mark.parametrize("library", EVERY)
@pytest.mark.parametrize("method", METHODS)
def test_nonnegative_groups_and_tasks_in_every_library(library, method):
    case, reference = make("dense", library, "float64"), make("dense", "numpy", "float64")
    groups = np.arange(D) // 2
    post, ours = (
        cofem.fit(c.phi, c.y, noise_precision=BETA, method=method, nonnegative=True,
                  groups=groups, max_iter=8, tol=0.0, prior="ard")
        for c in (case, reference)
    )  # fmt: skip
    assert type(post.mean) is type(case.y)
    assert (backend.to_numpy(post.mean) >= 0).all()
    pairs = backend.to_numpy(post.precision).reshape(-1, 2)
    np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])
    exact = method != "cofem"
    if exact:
        np.testing.assert_allclose(backend.to_numpy(post.mean), ours.mean, rtol=1e-6, atol=1e-9)
    draws = post.sample(4, seed=1)
    assert type(draws) is type(case.y)
    joint = cofem.fit([case.phi, case.phi], [case.y, case.y], noise_precision=BETA,
                      method=method, max_iter=4, tol=0.0)  # fmt: skip
    assert type(joint.mean) is type(case.y)
    assert tuple(joint.mean.shape) == (2, D)


@pytest.mark.parametrize("library", EVERY)
def test_posterior_takes_precisions_of_the_library(library):
    case = make("dense", library, "float64")
    alpha = np.geomspace(0.1, 1e4, D)
    for given in (CONVERT[library](alpha), alpha):
        post = cofem.posterior(case.phi, case.y, precision=given, noise_precision=BETA)
        assert type(post.precision) is type(case.y)
        np.testing.assert_array_equal(backend.to_numpy(post.precision), alpha)


@pytest.mark.parametrize("first", libraries("numpy", "strict"))
@pytest.mark.parametrize("second", libraries("torch", "jax"))
def test_two_libraries_are_refused(first, second):
    mixed = Case(make("dense", first, "float64").phi, make("dense", second, "float64").y, None)
    with pytest.raises(TypeError, match=r"phi.*y|y.*phi"):
        fit(mixed, "em")


@pytest.mark.parametrize("y_dtype", ["float32", "float64"])
@pytest.mark.parametrize("phi_dtype", ["float32", "float64"])
def test_single_precision_needs_both(y_dtype, phi_dtype):
    # Nothing is silently rounded: one double makes all double.
    case = make("dense", "numpy", "float64")
    post = cofem.fit(case.phi.astype(phi_dtype), case.y.astype(y_dtype), noise_precision=BETA,
                     method="em", max_iter=3, tol=0.0)  # fmt: skip
    single = y_dtype == phi_dtype == "float32"
    assert post.mean.dtype == (np.float32 if single else np.float64)
    exact = cofem.fit(case.phi, case.y, noise_precision=BETA, method="em", max_iter=3, tol=0.0)
    np.testing.assert_allclose(post.mean, exact.mean, atol=1e-4 * abs(exact.mean).max())
