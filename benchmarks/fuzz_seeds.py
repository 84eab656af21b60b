"""Small real files of every format, to begin fuzzing from."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MATRIX = np.arange(12.0).reshape(3, 4)


def saved(folder: Path, name: str, write: Callable[[Path], Any]) -> Path:
    path = folder / name
    write(path)
    return path


def npy(folder: Path) -> list[Path]:
    arrays = [MATRIX, MATRIX.astype(np.complex64), np.asfortranarray(MATRIX), np.arange(3)]
    arrays.append(np.array([{"a": 1}], dtype=object))  # pickled: refused
    return [saved(folder, f"{i}.npy", lambda p, a=a: np.save(p, a)) for i, a in enumerate(arrays)]


def npz(folder: Path) -> list[Path]:
    import scipy.sparse

    sparse = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    return [
        saved(folder, "a.npz", lambda p: np.savez(p, phi=MATRIX)),
        saved(folder, "b.npz", lambda p: np.savez_compressed(p, phi=MATRIX, y=MATRIX[:, 0])),
        saved(folder, "c.npz", lambda p: scipy.sparse.save_npz(p, sparse)),
        saved(folder, "d.npz", lambda p: scipy.sparse.save_npz(p, sparse.tocoo())),
    ]


def mtx(folder: Path) -> list[Path]:
    texts = (
        "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 2.5\n3 1 -1e3\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 1\n3 1\n",
        "%%MatrixMarket matrix coordinate complex hermitian\n% c\n2 2 1\n2 1 1 2\n",
    )
    return [saved(folder, f"{i}.mtx", lambda p, t=t: p.write_text(t)) for i, t in enumerate(texts)]


def mat(folder: Path) -> list[Path]:
    import scipy.io
    import scipy.sparse

    sparse = scipy.sparse.csc_array(np.diag([1.0, 2.0, 3.0]))
    held: list[tuple[dict[str, Any], bool]] = [
        ({"phi": MATRIX}, False), ({"phi": MATRIX, "y": MATRIX[0]}, True), ({"phi": sparse}, False),
        ({"phi": MATRIX, "cell": {"a": 1}, "text": "b"}, False), ({"k": MATRIX + 1j}, False),
    ]  # fmt: skip
    return [
        saved(folder, f"{i}.mat", lambda p, h=h, c=c: scipy.io.savemat(p, h, do_compression=c))
        for i, (h, c) in enumerate(held)
    ]


def csv(folder: Path) -> list[Path]:
    texts = ("a,b,c\n1,2,3\n4,5,6\n", "1;2\n3;4\n", "1 2\n3 4\n", "1+2j,3\n4,5j\n",
             "time,c1,c2\n0.0,1,2\n0.1,2,3\n0.2,1,1\n")  # fmt: skip
    return [saved(folder, f"{i}.csv", lambda p, t=t: p.write_text(t)) for i, t in enumerate(texts)]


def hdf5(folder: Path) -> list[Path]:
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

    return [saved(folder, "caiman.h5", caiman), saved(folder, "fastmri.h5", fastmri)]


def suite2p(folder: Path) -> list[Path]:
    plane = folder / "plane0"
    plane.mkdir()
    rng = np.random.default_rng(0)
    np.save(plane / "F.npy", rng.random((2, 30)) + 5)
    np.save(plane / "Fneu.npy", rng.random((2, 30)))
    np.save(plane / "iscell.npy", np.ones((2, 2)))
    np.save(plane / "ops.npy", {"fs": 30.0, "neucoeff": 0.7})  # type: ignore[arg-type]
    return [plane]


def minian(folder: Path) -> list[Path]:
    import zarr

    place = folder / "minian"
    place.mkdir()
    zarr.save(str(place / "C.zarr"), MATRIX)
    return [place]


def bart(folder: Path) -> list[Path]:
    place = folder / "bart"
    place.mkdir()
    (place / "k.hdr").write_text("# Dimensions\n4 4 1 1 1\n")
    np.ones(16, np.complex64).tofile(place / "k.cfl")
    return [place]


def nifti(folder: Path) -> list[Path]:
    import nibabel

    image = nibabel.Nifti1Image(np.ones((4, 4, 2), np.float32), np.eye(4))
    plain = saved(folder, "i.nii", lambda p: nibabel.save(image, p))
    return [plain]


def nifti_gz(folder: Path) -> list[Path]:
    (plain,) = nifti(folder)
    packed = folder / "i.nii.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return [packed]
