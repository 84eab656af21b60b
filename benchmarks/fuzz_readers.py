"""Every reader of the library, with small real files to begin from."""

from __future__ import annotations

import gzip
import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


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


MATRIX = np.arange(12.0).reshape(3, 4)


def _saved(folder: Path, name: str, write: Callable[[Path], Any]) -> Path:
    path = folder / name
    write(path)
    return path


# -- arrays, matrices, tables -----------------------------------------------------------------


def _npy(folder: Path) -> list[Path]:
    arrays = [MATRIX, MATRIX.astype(np.complex64), np.asfortranarray(MATRIX), np.arange(3)]
    arrays.append(np.array([{"a": 1}], dtype=object))  # pickled: refused
    return [_saved(folder, f"{i}.npy", lambda p, a=a: np.save(p, a)) for i, a in enumerate(arrays)]


def _npz(folder: Path) -> list[Path]:
    import scipy.sparse

    sparse = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    return [
        _saved(folder, "a.npz", lambda p: np.savez(p, phi=MATRIX)),
        _saved(folder, "b.npz", lambda p: np.savez_compressed(p, phi=MATRIX, y=MATRIX[:, 0])),
        _saved(folder, "c.npz", lambda p: scipy.sparse.save_npz(p, sparse)),
        _saved(folder, "d.npz", lambda p: scipy.sparse.save_npz(p, sparse.tocoo())),
    ]


def _mtx(folder: Path) -> list[Path]:
    texts = (
        "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 2.5\n3 1 -1e3\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 1\n3 1\n",
        "%%MatrixMarket matrix coordinate complex hermitian\n% c\n2 2 1\n2 1 1 2\n",
    )
    return [_saved(folder, f"{i}.mtx", lambda p, t=t: p.write_text(t)) for i, t in enumerate(texts)]


def _mat(folder: Path) -> list[Path]:
    import scipy.io
    import scipy.sparse

    sparse = scipy.sparse.csc_array(np.diag([1.0, 2.0, 3.0]))
    held: list[tuple[dict[str, Any], bool]] = [
        ({"phi": MATRIX}, False), ({"phi": MATRIX, "y": MATRIX[0]}, True), ({"phi": sparse}, False),
        ({"phi": MATRIX, "cell": {"a": 1}, "text": "b"}, False), ({"k": MATRIX + 1j}, False),
    ]  # fmt: skip
    return [
        _saved(folder, f"{i}.mat", lambda p, h=h, c=c: scipy.io.savemat(p, h, do_compression=c))
        for i, (h, c) in enumerate(held)
    ]


def _csv(folder: Path) -> list[Path]:
    texts = ("a,b,c\n1,2,3\n4,5,6\n", "1;2\n3;4\n", "1 2\n3 4\n", "1+2j,3\n4,5j\n",
             "time,c1,c2\n0.0,1,2\n0.1,2,3\n0.2,1,1\n")  # fmt: skip
    return [_saved(folder, f"{i}.csv", lambda p, t=t: p.write_text(t)) for i, t in enumerate(texts)]


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
        _saved(folder, "ard.npz", lambda p: _fit(prior="ard", noise_precision=1e4).save(p)),
        _saved(folder, "mixture.npz", lambda p: _fit(prior="mixture").save(p)),
    ]


def load_posterior(path: Path) -> Any:
    """Load and ask."""
    import cofem

    post = cofem.load(path)
    return post.interval(), post.mean, repr(post)


def _checkpoints(folder: Path) -> list[Path]:
    return [_saved(folder, "c.npz", lambda p: resume(p, 12))]


def resume(path: Path, iterations: int = 13) -> Any:
    """Go on from a checkpoint, which is written after every tenth iteration but the last."""
    return _fit(iterations, checkpoint=path, prior="ard", noise_precision=1e4, tol=0.0)


def _deconvolutions(folder: Path) -> list[Path]:
    from cofem.calcium import deconvolve, simulate

    found = deconvolve(simulate(n_cells=1, n_frames=60)[0], 30.0, n_jobs=1)
    return [_saved(folder, "s.npz", found.save)]


def load_deconvolution(path: Path) -> Any:
    """Load and ask."""
    from cofem.calcium import load_deconvolution as load

    return load(path).events()


def _trials(folder: Path) -> list[Path]:
    text = 'x,seed,method,nrmse\n0.02,0,EM/IRLS,2.1\n0.02,0,"CoFEM, our default",1.5\n0.0'
    return [_saved(folder, "t.csv", lambda p: p.write_text(text))]


def read_trials(path: Path) -> Any:
    """Open a file of the paper's trials."""
    from cofem.paper.trialfile import TrialFile

    columns = {"x": float, "seed": int, "method": str, "nrmse": float}
    return TrialFile(path, columns, ("x", "seed", "method")).rows


def _store(name: str) -> Callable[[Path], list[Path]]:
    def make(folder: Path) -> list[Path]:
        return [_saved(folder, name, go_on)]

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


def _hdf5(folder: Path) -> list[Path]:
    import h5py

    def caiman(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["estimates/F_dff"] = MATRIX
            file["estimates/idx_components"] = np.array([0, 2])
            file["params/data/fr"] = 30.0

    def fastmri(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["kspace"] = np.ones((2, 4, 4), np.complex64)
            file["mask"] = np.ones(4)

    return [_saved(folder, "caiman.h5", caiman), _saved(folder, "fastmri.h5", fastmri)]


def _suite2p(folder: Path) -> list[Path]:
    plane = folder / "plane0"
    plane.mkdir()
    rng = np.random.default_rng(0)
    np.save(plane / "F.npy", rng.random((2, 30)) + 5)
    np.save(plane / "Fneu.npy", rng.random((2, 30)))
    np.save(plane / "iscell.npy", np.ones((2, 2)))
    np.save(plane / "ops.npy", {"fs": 30.0, "neucoeff": 0.7})  # type: ignore[arg-type]
    return [plane]


def _minian(folder: Path) -> list[Path]:
    import zarr

    place = folder / "minian"
    place.mkdir()
    zarr.save(str(place / "C.zarr"), MATRIX)
    return [place]


def _bart(folder: Path) -> list[Path]:
    place = folder / "bart"
    place.mkdir()
    (place / "k.hdr").write_text("# Dimensions\n4 4 1 1 1\n")
    np.ones(16, np.complex64).tofile(place / "k.cfl")
    return [place]


def _nifti(folder: Path) -> list[Path]:
    import nibabel

    image = nibabel.Nifti1Image(np.ones((4, 4, 2), np.float32), np.eye(4))
    plain = _saved(folder, "i.nii", lambda p: nibabel.save(image, p))
    return [plain]


def _nifti_gz(folder: Path) -> list[Path]:
    (plain,) = _nifti(folder)
    packed = folder / "i.nii.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return [packed]


def read_traces(path: Path) -> Any:
    """Read traces of a microscope."""
    from cofem.calcium.files import read_traces as read

    return read(path)


def read_scan(path: Path) -> Any:
    """Read a scan and describe it."""
    from cofem.mri.files.scan import read_scan as read

    return read(path / "k.hdr" if path.is_dir() else path).summary()


READERS = {
    "array .npy": Reader(read_array, ".npy", _npy),
    "archive .npz": Reader(read_archive, ".npz", _npz, "zip"),
    "matrix .npz": Reader(read_matrix, ".npz", _npz, "zip"),
    "matrix .mtx": Reader(read_matrix, ".mtx", _mtx),
    "matrix .mat": Reader(read_matrix, ".mat", _mat),
    "matrix .csv": Reader(read_matrix, ".csv", _csv),
    "posterior": Reader(load_posterior, ".npz", _posteriors, "zip"),
    "checkpoint": Reader(resume, ".npz", _checkpoints, "zip"),
    "deconvolution": Reader(load_deconvolution, ".npz", _deconvolutions, "zip"),
    "trials": Reader(read_trials, ".csv", _trials),
    "store, settings": Reader(go_on, "", _store("many"), member="settings.json"),
    "store, state": Reader(go_on, "", _store("many"), member="state.npy"),
    "store, zarr": Reader(go_on, "", _store("many.zarr"), member="zarr.json"),
    "traces .csv": Reader(read_traces, ".csv", _csv),
    "traces .mat": Reader(read_traces, ".mat", _mat),
    "traces .h5": Reader(read_traces, ".h5", _hdf5),
    "suite2p, F": Reader(read_traces, "", _suite2p, member="F.npy"),
    "suite2p, ops": Reader(read_traces, "", _suite2p, member="ops.npy"),
    "minian": Reader(read_traces, "", _minian, member="C.zarr/zarr.json"),
    "scan .npz": Reader(read_scan, ".npz", _npz, "zip"),
    "scan .mat": Reader(read_scan, ".mat", _mat),
    "scan .h5": Reader(read_scan, ".h5", _hdf5),
    "scan .hdr": Reader(read_scan, "", _bart, member="k.hdr"),
    "scan .nii": Reader(read_scan, ".nii", _nifti),
    "scan .nii.gz": Reader(read_scan, ".nii.gz", _nifti_gz, "gzip"),
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
