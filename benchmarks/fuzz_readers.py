"""Every reader of the library, with small real files to begin from."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_seeds import bart, csv, hdf5, mat, minian, mtx, nifti, nifti_gz, npy, npz, saved, suite2p


@dataclass(frozen=True)
class Reader:
    """A door for files.

    Attributes
    ----------
    read : function
        From the path (a folder where ``member`` is given) to anything.
    ending : str
        Of the file's name.
    seeds : function
        Writes real files into a folder and returns them; with ``member``, folders.
    packed : str
        "zip" or "gzip": what has checksums, so that its content is what has to be changed.
    member : str
        The file inside a folder that is changed; the others stay as they are.
    """

    read: Callable[[Path], Any]
    ending: str
    seeds: Callable[[Path], list[Path]]
    packed: str = ""
    member: str = ""


# -- arrays, matrices, tables -----------------------------------------------------------------


def read_matrix(path: Path) -> None:
    """Read and multiply: an index out of range would crash here."""
    import scipy.sparse

    from cofem.files import read_matrix as read

    found = read(path, "phi")
    if scipy.sparse.issparse(found) and max(found.shape) < 10**6:
        found @ np.zeros(found.shape[1])


def read_array(path: Path) -> Any:
    """Read one array."""
    from cofem.files import read_array as read

    return read(path, "y")


def read_archive(path: Path) -> Any:
    """Read all arrays."""
    from cofem.files import read_archive as read

    return read(path, "y")


# -- our own files ------------------------------------------------------------------------------


def _problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(6, 8))
    return phi, phi[:, 2] + 0.01 * rng.normal(size=6)


def _fit(max_iter: int = 3, **options: Any) -> Any:
    import cofem

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cofem.fit(*_problem(), method="em", max_iter=max_iter, **options)


def _posteriors(folder: Path) -> list[Path]:
    return [
        saved(folder, "ard.npz", lambda p: _fit(prior="ard", noise_precision=1e4).save(p)),
        saved(folder, "mixture.npz", lambda p: _fit(prior="mixture").save(p)),
    ]


def load_posterior(path: Path) -> Any:
    """Load and ask."""
    import cofem

    post = cofem.load(path)
    return post.interval(), post.mean, repr(post)


def _checkpoints(folder: Path) -> list[Path]:
    return [saved(folder, "c.npz", lambda p: resume(p, 12))]


def resume(path: Path, iterations: int = 13) -> Any:
    """Go on from a checkpoint, which is written after every tenth iteration but the last."""
    return _fit(iterations, checkpoint=path, prior="ard", noise_precision=1e4, tol=0.0)


def _deconvolutions(folder: Path) -> list[Path]:
    from cofem.calcium import deconvolve, simulate

    found = deconvolve(simulate(n_cells=1, n_frames=60)[0], 30.0, n_jobs=1)
    return [saved(folder, "s.npz", found.save)]


def load_deconvolution(path: Path) -> Any:
    """Load and ask."""
    from cofem.calcium import load_deconvolution as load

    return load(path).events()


def _trials(folder: Path) -> list[Path]:
    text = 'x,seed,method,nrmse\n0.02,0,EM/IRLS,2.1\n0.02,0,"CoFEM, our default",1.5\n0.0'
    return [saved(folder, "t.csv", lambda p: p.write_text(text))]


def read_trials(path: Path) -> Any:
    """Open a file of the paper's trials."""
    from cofem.paper.trialfile import TrialFile

    columns = {"x": float, "seed": int, "method": str, "nrmse": float}
    return TrialFile(path, columns, ("x", "seed", "method")).rows


def _store(name: str) -> Callable[[Path], list[Path]]:
    def make(folder: Path) -> list[Path]:
        return [saved(folder, name, go_on)]

    return make


def go_on(path: Path) -> Any:
    """Go on with a store of fit_many."""
    import cofem

    phi, y = _problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = cofem.fit_many(phi, np.stack([y, 2 * y]), noise_precision=1e4, prior="ard",
                              method="em", max_iter=2, store=path)  # fmt: skip
    return many.mean[:], many.message, repr(many)


# -- microscopes and scanners ---------------------------------------------------------------------


def read_traces(path: Path) -> Any:
    """Read traces of a microscope."""
    from cofem.calcium.files import read_traces as read

    return read(path)


def read_scan(path: Path) -> Any:
    """Read a scan and describe it."""
    from cofem.mri.files.scan import read_scan as read

    return read(path / "k.hdr" if path.is_dir() else path).summary()


READERS = {
    "array .npy": Reader(read_array, ".npy", npy),
    "archive .npz": Reader(read_archive, ".npz", npz, "zip"),
    "matrix .npz": Reader(read_matrix, ".npz", npz, "zip"),
    "matrix .mtx": Reader(read_matrix, ".mtx", mtx),
    "matrix .mat": Reader(read_matrix, ".mat", mat),
    "matrix .csv": Reader(read_matrix, ".csv", csv),
    "posterior": Reader(load_posterior, ".npz", _posteriors, "zip"),
    "checkpoint": Reader(resume, ".npz", _checkpoints, "zip"),
    "deconvolution": Reader(load_deconvolution, ".npz", _deconvolutions, "zip"),
    "trials": Reader(read_trials, ".csv", _trials),
    "store, settings": Reader(go_on, "", _store("many"), member="settings.json"),
    "store, state": Reader(go_on, "", _store("many"), member="state.npy"),
    "store, zarr": Reader(go_on, "", _store("many.zarr"), member="zarr.json"),
    "traces .csv": Reader(read_traces, ".csv", csv),
    "traces .mat": Reader(read_traces, ".mat", mat),
    "traces .h5": Reader(read_traces, ".h5", hdf5),
    "suite2p, F": Reader(read_traces, "", suite2p, member="F.npy"),
    "suite2p, ops": Reader(read_traces, "", suite2p, member="ops.npy"),
    "minian": Reader(read_traces, "", minian, member="C.zarr/zarr.json"),
    "scan .npz": Reader(read_scan, ".npz", npz, "zip"),
    "scan .mat": Reader(read_scan, ".mat", mat),
    "scan .h5": Reader(read_scan, ".h5", hdf5),
    "scan .hdr": Reader(read_scan, "", bart, member="k.hdr"),
    "scan .nii": Reader(read_scan, ".nii", nifti),
    "scan .nii.gz": Reader(read_scan, ".nii.gz", nifti_gz, "gzip"),
}


def corpus(name: str, folder: Path) -> Path:
    """Write the seeds of a reader; return the folder of the bytes that are changed."""
    reader = READERS[name]
    real, bytes_ = folder / "real", folder / "corpus"
    real.mkdir(parents=True)
    bytes_.mkdir()
    for path in reader.seeds(real):
        if reader.member:
            shutil.copy(path / reader.member, bytes_ / path.name)
        else:
            shutil.copy(path, bytes_ / path.name)
    (folder / "names.json").write_text(json.dumps([path.name for path in bytes_.iterdir()]))
    return bytes_
