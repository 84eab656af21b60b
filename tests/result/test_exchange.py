"""Posteriors in pandas, xarray and ArviZ: the same numbers, under names that say what they are."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cofem
from cofem import simulate

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next version
    import arviz as az

PROBLEM = simulate.gaussian(60, 0, sparsity=0.06)


def learned(**options):
    return cofem.fit(
        PROBLEM.phi, PROBLEM.y, noise_precision=PROBLEM.noise_precision, prior="mixture", **options
    )


def joint(intercept=False):
    rng = np.random.default_rng(3)
    phi = rng.standard_normal((30, 12))
    z = np.zeros((3, 12))
    z[:, 4] = [1.0, -2.0, 3.0]
    y = z @ phi.T + 0.1 * rng.standard_normal((3, 30)) + 5 * intercept
    return cofem.fit(phi, y, noise_precision=[100.0] * 3, prior="ard", intercept=intercept)


def complex_post():
    rng = np.random.default_rng(4)
    phi = rng.standard_normal((20, 8)) + 1j * rng.standard_normal((20, 8))
    return cofem.posterior(phi, phi[:, 2] * 2j, precision=np.ones(8), noise_precision=10.0)


POSTERIORS = {
    "learned": learned, "ard": lambda: learned_as_ard(), "joint": joint, "complex": complex_post,
    "intercept": lambda: joint(intercept=True),
}  # fmt: skip


def learned_as_ard():
    return cofem.posterior(
        PROBLEM.phi, PROBLEM.y, precision=np.ones(60), noise_precision=PROBLEM.noise_precision
    )


# -- pandas ----------------------------------------------------------------------------------


def test_a_table_holds_every_coordinate_with_its_name():
    post = learned()
    names = [f"gene {i}" for i in range(60)]
    table = post.to_dataframe(names=names, level=0.8)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["mean", "std", "low", "high", "probability", "support"]
    assert list(table.index) == names
    assert table.index.name == "coordinate"
    low, high = post.interval(0.8)
    for name, values in [
        ("mean", post.mean),
        ("std", post.std),
        ("low", low),
        ("high", high),
        ("probability", post.probability),
        ("support", post.support(0.8)),
    ]:
        np.testing.assert_array_equal(table[name], values)  # fmt: skip
    assert table["support"].dtype == bool
    assert table.attrs["prior"] == "mixture"
    assert table.attrs["converged"] == post.converged
    assert table.attrs["message"] == post.message
    assert table.attrs["cofem_version"] == cofem.__version__


def test_a_table_of_joint_tasks_has_two_levels_and_can_be_joined():
    post = joint(intercept=True)
    table = post.to_dataframe()
    assert table.index.names == ["task", "coordinate"]
    np.testing.assert_array_equal(table["mean"].unstack(), post.mean)
    assert table.attrs["intercept"] == post.intercept.tolist()
    assert table.attrs["noise_precision"] == [100.0] * 3
    both = pd.concat([table, table])  # pandas compares the attrs
    assert len(both) == 2 * len(table)


def test_a_complex_mean_is_two_columns():
    post = complex_post()
    table = post.to_dataframe()
    assert list(table.columns) == ["mean_real", "mean_imag", "std", "support"]
    np.testing.assert_array_equal(table["mean_real"] + 1j * table["mean_imag"], post.mean)


# -- xarray ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(POSTERIORS))
def test_a_dataset_says_the_same_and_survives_a_file(kind, tmp_path):
    post = POSTERIORS[kind]()
    data = post.to_xarray()
    assert isinstance(data, xr.Dataset)
    assert data["mean"].dims == (("task",) if post.mean.ndim == 2 else ()) + ("coordinate",)
    np.testing.assert_array_equal(data["mean"], post.mean)
    np.testing.assert_array_equal(data["std"], post.std)
    np.testing.assert_array_equal(data["precision"], post.precision)
    assert ("low" in data) == (kind != "complex")
    assert ("probability" in data) == (kind == "learned")
    if kind == "complex":
        return  # netCDF has no complex numbers
    data.to_netcdf(tmp_path / "post.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "post.nc", engine="h5netcdf") as again:
        xr.testing.assert_equal(again, data)
        assert again.attrs["message"] == post.message
        np.testing.assert_allclose(again.attrs["noise_precision"], post.noise_precision)


def test_a_dataset_has_the_intercepts_of_its_tasks():
    post = joint(intercept=True)
    data = post.to_xarray()
    assert data["intercept"].dims == ("task",)
    np.testing.assert_array_equal(data["intercept"], post.intercept)
    np.testing.assert_array_equal(data["intercept_std"], post.intercept_std)
    assert "intercept" not in joint().to_xarray()


def test_precisions_of_a_sparsifier_have_their_own_dimension():
    rng = np.random.default_rng(0)
    R = cofem.operators.FiniteDifference((16,), 0)
    step = np.repeat([0.0, 1.0], 8)
    post = cofem.fit(
        np.eye(16), step + 0.1 * rng.standard_normal(16), noise_precision=100.0, sparsifier=R
    )
    assert post.to_xarray()["precision"].dims == ("row",)


# -- ArviZ -----------------------------------------------------------------------------------


def test_arviz_reads_the_draws():
    post = learned_as_ard()
    draws = post.to_arviz(n_draws=500, n_chains=4, seed=1, names=[f"x{i}" for i in range(60)])
    new = int(az.__version__.split(".")[0]) >= 1  # ArviZ 1.0 takes xarray's trees
    assert isinstance(draws, xr.DataTree if new else az.InferenceData)
    z = draws.posterior["z"]
    assert z.dims == ("chain", "draw", "coordinate")
    np.testing.assert_array_equal(z.values.reshape(2000, 60), post.sample(2000, seed=1))
    assert draws.posterior.attrs["prior"] == "ard"
    table = az.summary(draws, kind="all")
    error = post.std / np.sqrt(2000)
    # 60 means: the largest of as many normal errors exceeds 5 with a probability of 3e-5.
    assert np.max(np.abs(z.mean(("chain", "draw")).values - post.mean) / error) < 5
    assert table["r_hat"].max() < 1.02  # independent draws
    assert "z[x59]" in table.index


def test_arviz_gets_intercepts_that_vary_with_z():
    post = joint(intercept=True)
    draws = post.to_arviz(n_draws=2000, n_chains=2, seed=0).posterior
    assert draws["intercept"].dims == ("chain", "draw", "task")
    found = draws["intercept"].values.reshape(4000, 3)
    # A mean of 4000 draws is 1/63 of their deviation off, and a deviation 1/89 of itself.
    np.testing.assert_allclose(
        found.mean(axis=0), post.intercept, atol=5 * post.intercept_std.max() / 63
    )
    np.testing.assert_allclose(found.std(axis=0), post.intercept_std, rtol=5 / 89)
    # What the data determine, the level at the mean of the rows, varies less than the constant
    # and Φz do apart: a new observation's mean must have predict's deviation.
    task = post.tasks[0]
    z = draws["z"].values.reshape(4000, 3, 12)[:, 0]
    row = np.asarray(task.intercept.row)[None]
    _, std = post.predict(row, noise=False)
    np.testing.assert_allclose((z @ row[0] + found[:, 0]).std(), std[0, 0], rtol=5 / 89)


def test_complex_draws_are_two_real_variables():
    draws = complex_post().to_arviz(n_draws=50, n_chains=2, seed=0).posterior
    assert set(draws.data_vars) == {"z_real", "z_imag"}
    assert draws["z_imag"].dtype.kind == "f"


def test_arviz_one_gets_a_tree(monkeypatch):
    before = learned().to_arviz(n_draws=10, n_chains=2, seed=0).posterior
    monkeypatch.setattr(az, "__version__", "1.0.0")
    tree = learned().to_arviz(n_draws=10, n_chains=2, seed=0)
    assert isinstance(tree, xr.DataTree)
    assert tree["posterior"]["z"].shape == (2, 10, 60)
    xr.testing.assert_equal(tree["posterior"].to_dataset(), before)  # the same draws


def test_draws_of_a_file_need_the_operator(tmp_path):
    learned().save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="needs the operator"):
        cofem.load(tmp_path / "p.npz").to_arviz()
    assert len(cofem.load(tmp_path / "p.npz").to_dataframe()) == 60


# -- the door --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "library"),
    [("to_dataframe", "pandas"), ("to_xarray", "xarray"), ("to_arviz", "arviz")],
)
def test_a_missing_library_says_what_to_install(call, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{call} needs {library}.*pip install {library}$"):
        getattr(learned_as_ard(), call)()


@pytest.mark.parametrize("call", ["to_dataframe", "to_xarray", "to_arviz"])
def test_wrong_names_are_refused(call):
    post = learned_as_ard()
    with pytest.raises(ValueError, match=r"names must have 60 labels.*got 2"):
        getattr(post, call)(names=["a", "b"])
    with pytest.raises(TypeError, match="names must be a sequence"):
        getattr(post, call)(names="abc")


def test_wrong_levels_and_counts_are_refused():
    post = learned_as_ard()
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        post.to_dataframe(level=95)
    with pytest.raises(ValueError, match="n_draws"):
        post.to_arviz(n_draws=0)


def test_tensors_come_out_as_tables():
    torch = pytest.importorskip("torch")
    phi, y = torch.asarray(np.asarray(PROBLEM.phi.to_dense())), torch.asarray(PROBLEM.y)
    post = cofem.posterior(phi, y, precision=torch.ones(60, dtype=phi.dtype), noise_precision=9.0)
    table, data = post.to_dataframe(), post.to_xarray()
    np.testing.assert_allclose(table["mean"], post.mean.numpy())
    np.testing.assert_allclose(data["std"], post.std.numpy())
    assert post.to_arviz(n_draws=5, n_chains=2, seed=0).posterior["z"].shape == (2, 5, 60)
