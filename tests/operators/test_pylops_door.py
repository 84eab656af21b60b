"""Every PyLops operator that has a dot test comes through the door, and means what it is."""

import importlib.metadata

import numpy as np
import pytest

pytest.importorskip("pylops")

import pylops
from operator_tools import random_array
from pylops import signalprocessing as sp
from pylops_cases import CASES, ELSEWHERE, REAL, public_classes

import cofem
from cofem.operators import as_operator, check_adjoint

names = pytest.mark.parametrize("name", CASES)
UNDECIDED = {"Imag", "Conj"}
pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",  # PyLops' own
)


def matrix_of(op):
    """Return the matrix by PyLops' own products with real unit vectors."""
    columns = [op.matvec(e) for e in np.eye(op.shape[1])]
    return np.stack(columns, axis=1)


def tolerance(op):
    return 1e-5 if np.finfo(op.dtype).eps > 1e-10 else 1e-10


@pytest.mark.skipif(
    not importlib.metadata.version("pylops").startswith("2.8"), reason="the list of one version"
)
def test_no_public_operator_is_forgotten():
    listed = {name.split("-")[0] for name in CASES} | set(ELSEWHERE)
    assert public_classes() - listed == set()


@names
def test_its_own_dot_test_passes(name):
    """What PyLops itself refuses would prove nothing here."""
    op = CASES[name]()
    flag = 2 if np.iscomplexobj(np.ones(1, op.dtype)) else 0
    assert pylops.utils.dottest(op, complexflag=flag, rtol=1e-4, raiseerror=False)


@names
def test_products_are_those_of_its_matrix(name):
    theirs = CASES[name]()
    op, A = as_operator(theirs), matrix_of(theirs)
    check_adjoint(op)
    scale = tolerance(theirs) * (1 + np.abs(A).max())
    for dtype in ("float64", "complex128"):
        x, y = random_array((3, A.shape[1]), dtype, 0), random_array((3, A.shape[0]), dtype, 1)
        np.testing.assert_allclose(op.forward(x), x @ A.T, atol=10 * scale)
        np.testing.assert_allclose(op.adjoint(y), y @ A.conj(), atol=10 * scale)
        np.testing.assert_allclose(op.forward(x[0]), x[0] @ A.T, atol=10 * scale)
        np.testing.assert_allclose(op.adjoint(y[0]), y[0] @ A.conj(), atol=10 * scale)
    norms = np.sum(np.abs(A) ** 2, axis=0)
    scale *= 10 * (1 + norms.max())
    np.testing.assert_allclose(op.column_norms_squared(), norms, atol=scale)


@names
def test_the_posterior_is_that_of_its_matrix(name):
    theirs = CASES[name]()
    op, A = as_operator(theirs), matrix_of(theirs)
    real = op.field != "complex"
    y = random_array((A.shape[0],), "complex128" if np.iscomplexobj(A) else "float64", 2)
    given = {"real": True} if name in UNDECIDED else {}  # the others know that z is real
    post = cofem.posterior(theirs, y, precision=1.5, noise_precision=2.0, method="cofem", **given)
    gram, right = A.conj().T @ A, A.conj().T @ y
    if real and np.iscomplexobj(A):  # two real numbers in every complex one
        gram, right = 2 * gram.real, 2 * right.real
    mean = np.linalg.solve(2.0 * gram + 1.5 * np.eye(len(gram)), 2.0 * right)
    assert np.iscomplexobj(post.mean) == (np.iscomplexobj(A) and not real)
    scale = 1e-4 * np.abs(mean).max() if np.any(mean) else 1e-12
    np.testing.assert_allclose(post.mean, mean, atol=scale)


@pytest.mark.parametrize("name", sorted(UNDECIDED))
def test_operators_that_do_something_else_with_imaginary_parts(name):
    op = as_operator(CASES[name]())
    assert op.field == "undecided"
    with pytest.raises(ValueError, match=r"linear over the reals only .* pass real=True"):
        cofem.posterior(CASES[name](), np.ones(6), precision=1.0, noise_precision=1.0)


def test_the_inverse_of_a_real_fft_is_undecided():
    """Its unknowns are complex numbers, but not times i."""
    assert as_operator(sp.FFT(8, real=True).H).field == "undecided"


def test_what_only_reals_may_enter_is_not_given_complex_numbers():
    real_fft = as_operator(sp.FFT(8, real=True))
    assert (2 * real_fft).field == "real"
    assert (real_fft @ as_operator(pylops.Identity(8))).field == "real"
    with pytest.raises(ValueError, match="a is linear over the reals only"):
        real_fft @ as_operator(sp.FFT(8))


def test_a_fit_through_a_real_fft_finds_the_spikes():
    rng = np.random.default_rng(0)
    n = 64
    fft = sp.FFT(n, real=True)
    z = np.zeros(n)
    z[[5, 20, 41]] = [1.0, -2.0, 1.5]
    measured = np.sort(rng.permutation(fft.shape[0])[:20])
    keep = pylops.Restriction(fft.shape[0], measured, dtype="complex128")
    phi = keep @ fft
    y = phi @ z + 0.001 * (rng.standard_normal(20) + 1j * rng.standard_normal(20))
    post = cofem.fit(phi, y, noise_precision=5e5, max_iter=300)
    assert not np.iscomplexobj(post.mean)
    np.testing.assert_allclose(post.mean, z, atol=0.01)


def test_an_operator_that_is_not_its_adjoints_adjoint_is_refused():
    # In PyLops 2.8 the adjoint of a product that is remembered is its argument.
    remembers = pylops.MemoizeOperator(pylops.MatrixMult(REAL), max_neval=2)
    with pytest.raises(ValueError, match="adjoint does not match forward"):
        check_adjoint(as_operator(remembers))
