"""A posterior for other tools: pandas tables, xarray datasets, ArviZ.

Each library is an extra, imported when its method is called.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cofem import backend
from cofem.arguments import whole_number
from cofem.result.columns import columns_of
from cofem.result.operations import tasks_of

if TYPE_CHECKING:
    from cofem.result.posterior import Posterior


class Exchange:
    """What a posterior gives to other tools; :class:`~cofem.Posterior` has these methods."""

    def to_dataframe(self, names: Sequence[Any] | None = None, level: float = 0.95) -> Any:
        """Return a ``pandas.DataFrame``, one row for every coordinate.

        Columns: mean, std, low and high (the interval of that ``level``), probability (under the
        learned prior) and support; a complex mean is two columns, mean_real and mean_imag,
        without an interval. The index is ``coordinate``, or (``task``, ``coordinate``) for joint
        tasks. ``attrs`` holds how the fit ended, and the intercept where there is one.

        Parameters
        ----------
        names : sequence of length D, optional
            Labels of the coordinates in place of 0 … D − 1.
        level : float
            Of the interval and the support.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.array([0.1, 5.0]), precision=np.ones(2), noise_precision=3.0)
        >>> table = post.to_dataframe(names=["age", "dose"])
        >>> table.loc["dose", ["mean", "std"]].tolist(), table.attrs["prior"]
        ([3.75, 0.5], 'ard')
        """
        post = cast("Posterior", self)
        pandas = _library("pandas", "to_dataframe")
        columns = columns_of(post, level)
        shape, labels = post.gaussian_mean.shape, _labels(post, names)
        if len(shape) == 1:
            index = pandas.Index(labels, name="coordinate")
        else:
            both = [np.arange(shape[0]), labels]
            index = pandas.MultiIndex.from_product(both, names=["task", "coordinate"])
        table = pandas.DataFrame(
            {name: values.reshape(-1) for name, values in columns.items()}, index=index
        )
        facts = _facts(post)
        if post.intercept is not None:
            facts |= {"intercept": post.intercept, "intercept_std": post.intercept_std}
        # pandas compares attrs of tables that it joins, and arrays have no one truth.
        table.attrs = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in facts.items()
        }
        return table

    def to_xarray(self, names: Sequence[Any] | None = None, level: float = 0.95) -> Any:
        """Return an ``xarray.Dataset`` over ``coordinate``, and ``task`` for joint tasks.

        It holds mean, std, variance_error, low and high (unless complex), probability (under the
        learned prior), support, precision (over ``row`` where a sparsifier makes these others
        than the coordinates), and intercept and intercept_std where there are any. Attributes
        say how the fit ended; all of them can be written to netCDF.

        Parameters
        ----------
        names : sequence of length D, optional
            Labels of the coordinates in place of 0 … D − 1.
        level : float
            Of the interval and the support.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> y = np.array([[0.1, 5.0], [0.2, 4.0]])
        >>> post = cofem.posterior(np.eye(2), y, precision=np.ones(2), noise_precision=[3.0, 3.0])
        >>> data = post.to_xarray(names=["age", "dose"])
        >>> dict(data.sizes), float(data["mean"].sel(task=1, coordinate="dose"))
        ({'task': 2, 'coordinate': 2}, 3.0)
        >>> data.attrs["prior"], data.attrs["noise_precision"]
        ('ard', array([3., 3.]))
        """
        post = cast("Posterior", self)
        xarray = _library("xarray", "to_xarray")
        dims, coords = _dims(post, names)
        columns = columns_of(post, level, split_complex=False)
        columns["variance_error"] = backend.to_numpy(post.variance_error)
        variables: dict[str, Any] = {name: (dims, values) for name, values in columns.items()}
        sparsified = post.precision.shape[0] != post.gaussian_mean.shape[-1]
        rows = "row" if sparsified or post.sparsifier is not None else "coordinate"
        variables["precision"] = ((rows,), backend.to_numpy(post.precision))
        if post.intercept is not None:
            variables["intercept"] = (dims[:-1], np.asarray(post.intercept))
            variables["intercept_std"] = (dims[:-1], np.asarray(post.intercept_std))
        return xarray.Dataset(variables, coords=coords, attrs={**_facts(post), "level": level})

    def to_arviz(
        self,
        n_draws: int = 1000,
        n_chains: int = 4,
        seed: int | None = None,
        names: Sequence[Any] | None = None,
    ) -> Any:
        """Return draws as ArviZ takes them, in the group ``posterior``.

        An ``arviz.InferenceData``; an ``xarray.DataTree`` from ArviZ 1.0 on. The variable is
        ``z`` over (chain, draw, task if joint, coordinate); complex unknowns are ``z_real`` and
        ``z_imag``. With an intercept there is ``intercept`` too, drawn together with z. Draws are
        independent: chains are parts of one long list, so R̂ is 1 but for chance.

        Parameters
        ----------
        n_draws : int
            Of every chain.
        n_chains : int
        seed : int, optional
        names : sequence of length D, optional
            Labels of the coordinates in place of 0 … D − 1.

        Examples
        --------
        >>> import numpy as np, cofem
        >>> post = cofem.posterior(
        ...     np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=3.0)
        >>> draws = post.to_arviz(n_draws=500, n_chains=2, seed=0, names=["age", "dose"])
        >>> dict(draws.posterior.sizes)
        {'chain': 2, 'draw': 500, 'coordinate': 2}
        >>> round(float(draws.posterior["z"].sel(coordinate="dose").std()), 1)
        0.5
        """
        post = cast("Posterior", self)
        arviz = _library("arviz", "to_arviz")
        xarray = _library("xarray", "to_arviz")
        draws, chains = (
            whole_number("n_draws", n_draws, least=1), whole_number("n_chains", n_chains, least=1)
        )  # fmt: skip
        dims, coords = _dims(post, names)
        dims = ("chain", "draw", *dims)
        coords |= {"chain": np.arange(chains), "draw": np.arange(draws)}
        z = post.sample(draws * chains, seed=seed)
        variables = _parts("z", dims, z, (chains, draws))
        if post.intercept is not None:
            constant = _drawn_intercepts(post, z, seed)
            variables |= _parts("intercept", dims[:-1], constant, (chains, draws))
        facts = {**_facts(post), "inference_library": "cofem"}
        group = xarray.Dataset(variables, coords=coords, attrs=facts)
        if int(arviz.__version__.split(".")[0]) >= 1:
            return xarray.DataTree.from_dict({"posterior": group})
        return arviz.InferenceData(posterior=group)


def _library(name: str, call: str) -> Any:
    """Import a library, or say what to install."""
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces its next version to everybody who imports it.
            warnings.simplefilter("ignore", FutureWarning)
            return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f"{call} needs {name}, which is not installed: pip install {name}"
        ) from None


def _labels(post: Posterior, names: Sequence[Any] | None) -> np.ndarray:
    """Return the labels of the coordinates, (D,)."""
    unknowns = post.gaussian_mean.shape[-1]
    if names is None:
        return np.arange(unknowns)
    if isinstance(names, (str, bytes)) or not hasattr(names, "__len__"):
        raise TypeError(f"names must be a sequence of {unknowns} labels, got {names!r}")
    if len(names) != unknowns:
        raise ValueError(f"names must have {unknowns} labels, one a coordinate, got {len(names)}")
    return np.asarray(names)


def _dims(post: Posterior, names: Sequence[Any] | None) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the dimensions of z and their coordinates."""
    coords: dict[str, Any] = {"coordinate": _labels(post, names)}
    if post.gaussian_mean.ndim == 1:
        return ("coordinate",), coords
    coords["task"] = np.arange(post.gaussian_mean.shape[0])
    return ("task", "coordinate"), coords


def _facts(post: Posterior) -> dict[str, Any]:
    """Return how the fit ended, as values that netCDF can hold (it has no booleans)."""
    import cofem

    return {
        "prior": post.prior,
        "method": post.method,
        "noise_precision": post.noise_precision,
        "log_evidence": post.log_evidence,
        "log_evidence_error": post.log_evidence_error,
        "converged": int(post.converged),
        "message": post.message,
        "cofem_version": cofem.__version__,
    }


def _parts(name: str, dims: tuple[str, ...], draws: Any, chains: tuple[int, int]) -> dict[str, Any]:
    """Return draws by chain; ArviZ computes with real numbers, so complex ones are two."""
    values = backend.to_numpy(draws)
    values = values.reshape(*chains, *values.shape[1:])
    if not np.iscomplexobj(values):
        return {name: (dims, values)}
    return {f"{name}_real": (dims, values.real), f"{name}_imag": (dims, values.imag)}


def _drawn_intercepts(post: Posterior, draws: Any, seed: int | None) -> np.ndarray:
    """Draw the constants that go with draws of z: given z, N(level − row z, 1/(β weight))."""
    random = np.random.default_rng(None if seed is None else [seed, 1])
    z = backend.to_numpy(draws)
    columns = []
    for i, task in enumerate(tasks_of(post, "to_arviz")):
        assert task.intercept is not None
        row = backend.to_numpy(task.intercept.row)
        centre = task.intercept.level - (z if z.ndim == 2 else z[:, i]) @ row
        own = random.standard_normal((2, len(z))) / np.sqrt(
            task.noise_precision * task.intercept.weight
        )
        # E|x|² of a complex number is the sum over its two parts.
        shift = (own[0] + 1j * own[1]) / np.sqrt(2) if np.iscomplexobj(centre) else own[0]
        columns.append(centre + shift)
    return columns[0] if z.ndim == 2 else np.stack(columns, axis=1)
