"""Forms of data that ``fit`` takes or explains: lists, columns, tables, turned arguments."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from input_cases import PHI, Y, fit

import cofem
from cofem.operators import DCT, from_functions


def test_lists_of_data_are_joint_tasks_with_one_phi():
    # A list of vectors is what an array of shape (L, N) is.
    a = fit(y=np.stack([Y, 2 * Y]))
    for listed in ([Y, 2 * Y], [Y.tolist(), (2 * Y).tolist()]):
        b = fit(y=listed)
        np.testing.assert_array_equal(a.mean, b.mean)


def test_nothing_given_is_changed():
    phi, y, groups = PHI.copy(), Y.copy(), np.arange(9) // 2
    alpha = np.geomspace(1, 100, 9)
    before = [x.copy() for x in (phi, y, groups, alpha)]
    for x in (phi, y, groups, alpha):
        x.flags.writeable = False
    for method in ("em", "woodbury", "cofem"):
        fit(phi, y, groups=groups, method=method)
        cofem.posterior(phi, y, precision=alpha, noise_precision=1.0, method=method)
    for x, copy in zip((phi, y, groups, alpha), before, strict=True):
        np.testing.assert_array_equal(x, copy)


# -- what a newcomer tries -------------------------------------------------------


def test_a_generator_is_told_what_to_do():
    with pytest.raises(TypeError, match=r"y must be an array of numbers, got a generator.*list"):
        fit(y=(v for v in Y))


@pytest.mark.parametrize("kind", [np.array, np.ndarray.tolist, np.asmatrix, "pandas", "torch"])
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_tasks_in_columns_are_told_apart(kind):
    phi = PHI
    if kind == "pandas":
        kind = pytest.importorskip("pandas").DataFrame
    if kind == "torch":
        kind = pytest.importorskip("torch").from_numpy
        phi = kind(PHI)
    with pytest.raises(ValueError, match=r"joint tasks are rows, so pass y\.T .*3 vectors"):
        fit(phi, kind(np.ones((6, 3))))
    with pytest.raises(ValueError, match=r"y is a column of shape \(6, 1\)"):
        fit(phi, kind(np.ones((6, 1))))
    rows = fit(phi, kind(np.stack([Y, Y])))
    assert rows.mean.shape == (2, 9)


def test_a_square_y_is_taken_as_rows():
    assert fit(y=np.ones((6, 6))).mean.shape == (6, 9)


def test_turned_and_swapped_arguments():
    with pytest.raises(ValueError, match="is phi transposed"):
        fit(PHI.T, Y)
    with pytest.raises(ValueError, match="swapped"):
        fit(Y, PHI)


def test_classes_and_functions_are_not_operators_yet():
    with pytest.raises(TypeError, match=r"phi.*class DCT itself"):
        fit(DCT)
    with pytest.raises(TypeError, match=r"phi.*from_functions"):
        fit(lambda z: z)


def test_a_list_of_rows_is_a_matrix():
    np.testing.assert_array_equal(fit(list(PHI)).mean, fit().mean)
    with pytest.raises(TypeError, match=r"for a single task pass phi\[0\]"):
        fit([PHI])


@pytest.mark.parametrize("call", ["forward", "adjoint"])
def test_functions_of_the_wrong_shape_are_named_with_both_shapes(call):
    def mine(x):
        return x

    right = {"forward": lambda z: z @ PHI.T, "adjoint": lambda y: y @ PHI}
    phi = from_functions(**(right | {call: mine}), shape=(6, 9), dtype=float)
    given, wanted = (9, 6) if call == "forward" else (6, 9)
    words = rf"{call} returned shape \({given},\), expected \({wanted},\) .*function mine"
    with pytest.raises(ValueError, match=words):
        fit(phi)


def test_no_internal_names_are_shown():
    phi = cofem.operators.Fourier((9,), mask=np.arange(9) < 6)
    with pytest.raises(ValueError, match=r"got Fourier\(shape=\(6, 9\)\) with real=True"):
        fit(phi, Y + 0j, real=True, method="banded")


def test_tables_of_pandas():
    pandas = pytest.importorskip("pandas")
    # Tables are kept column by column: the same bits need the same order in memory.
    expected = fit(np.asfortranarray(PHI)).mean
    np.testing.assert_array_equal(fit(pandas.DataFrame(PHI), pandas.Series(Y)).mean, expected)
    values = [1, 2, None, 4, 5, 6]
    for holes in (pandas.Series(values), pandas.Series(values, dtype="Int64")):
        with pytest.raises(ValueError, match="y contains NaN"):
            fit(y=holes)


def test_a_matrix_with_a_graph_leaves_it_behind():
    torch = pytest.importorskip("torch")
    phi = torch.tensor(PHI, requires_grad=True)
    assert not fit(phi, torch.from_numpy(Y)).mean.requires_grad


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    np.testing.assert_allclose(
        fit(y=scale * Y, noise_precision=10.0 / scale**2).mean, scale * fit().mean, rtol=1e-9
    )


def test_products_of_other_libraries_that_fail_are_named():
    phi = scipy.sparse.linalg.LinearOperator(
        (6, 9), matvec=lambda v: v, rmatvec=lambda v: PHI.T @ v, dtype=float
    )
    with pytest.raises(ValueError, match=r"^phi: .*\(6,\)"):
        fit(phi)
