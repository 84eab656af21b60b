"""The jobs that are killed: small problems, written by the public doors."""

from __future__ import annotations

import contextlib
import csv
import io
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, final

import numpy as np

import cofem
from cofem import simulate


class Job(ABC):
    """Something that writes, what can be read of it at any moment, and its answer."""

    name = ""

    @abstractmethod
    def work(self, folder: Path) -> None:
        """Do everything, or what is left of it."""

    @abstractmethod
    def answer(self, folder: Path) -> dict[str, Any]:
        """Read the finished output."""

    @abstractmethod
    def kept(self, folder: Path) -> int:
        """Read what a killed run left; count what it had committed. Raises if it is unreadable."""


@final
class Fit(Job):
    """``fit`` with a checkpoint, and the posterior's file."""

    name = "fit(checkpoint=…), post.save"

    def __init__(self) -> None:
        self.problem = simulate.gaussian(48, 0, undersampling=2, sparsity=0.1)

    def work(self, folder: Path) -> None:
        """Fit for 40 iterations: four checkpoints."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cofem.ConvergenceWarning)
            post = cofem.fit(
                self.problem.phi, self.problem.y, noise_precision=self.problem.noise_precision,
                method="em", prior="ard", max_iter=40, tol=0.0, checkpoint=folder / "c.npz",
            )  # fmt: skip
        post.save(folder / "p.npz")

    def answer(self, folder: Path) -> dict[str, Any]:
        """Return mean and variance."""
        post = cofem.load(folder / "p.npz")
        return {"mean": post.mean, "variance": post.variance}

    def kept(self, folder: Path) -> int:
        """Return the iterations that the checkpoint holds."""
        if not (folder / "c.npz").exists():
            return 0
        with np.load(folder / "c.npz", allow_pickle=False) as held:
            return len(held["history_iteration"]) if "history_iteration" in held else 0


@final
class Many(Job):
    """``fit_many`` into a store."""

    def __init__(self, store: str) -> None:
        self.store, self.name = store, f"fit_many(store={store!r})"
        problem = simulate.gaussian(32, 0, undersampling=2, sparsity=0.1)
        rng = np.random.default_rng(0)
        self.phi = problem.phi
        self.Y = problem.y + 0.1 * rng.standard_normal((8, len(problem.y)))

    def _fit(self, folder: Path) -> Any:
        from cofem.many import committing, running

        # Every result is committed as it comes, so that there is much to interrupt.
        committing.COMMIT_SECONDS = running.CHUNK_SECONDS = 0.0  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cofem.ConvergenceWarning)
            return cofem.fit_many(
                self.phi, self.Y, noise_precision=100.0, method="em", prior="ard", max_iter=10,
                tol=0.0, n_jobs=1, store=folder / self.store,
            )  # fmt: skip

    def work(self, folder: Path) -> None:
        """Fit what is pending."""
        self._fit(folder)

    def answer(self, folder: Path) -> dict[str, Any]:
        """Return the means; nothing is pending any more."""
        many = self._fit(folder)
        return {"mean": np.array(many.mean), "variance": np.array(many.variance)}

    def kept(self, folder: Path) -> int:
        """Return how many results are marked as done; each must be a finite row."""
        state, mean = _rows(folder / self.store)
        done = np.flatnonzero(state)
        assert np.isfinite(mean[done]).all()
        assert np.abs(mean[done]).max(axis=1, initial=0).all()
        return len(done)


def _rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.zeros(0, np.uint8), np.zeros((0, 1))
    if path.suffix == ".zarr":
        import zarr

        if not (path / "zarr.json").exists():
            return nothing
        group = zarr.open_group(path, mode="r")
        whole = "layout" in dict(group.attrs).get("cofem", {})
        return (np.array(group["state"][:]), np.array(group["mean"][:])) if whole else nothing
    settings = path / "settings.json"
    if not settings.exists() or '"layout"' not in settings.read_text():
        return nothing
    return np.load(path / "state.npy"), np.load(path / "mean.npy")


def _command(*words: Any) -> None:
    from cofem.cli import app

    with contextlib.redirect_stdout(io.StringIO()):
        try:
            app([str(word) for word in words], prog_name="cofem")
        except SystemExit as leaving:  # the command always leaves; only a failure ends the job
            if leaving.code:
                raise


@final
class Calcium(Job):
    """``cofem calcium`` in batches of two cells."""

    name = "cofem calcium"

    def __init__(self, folder: Path) -> None:
        from cofem.calcium import simulate as traces

        self.source = folder / "dff.npy"
        np.save(self.source, traces(n_cells=6, n_frames=300)[0])

    def work(self, folder: Path) -> None:
        """Run the command; a finished batch is kept for the next run."""
        from cofem.cli import calcium

        calcium.BATCH = 2
        _command(
            "calcium", self.source, "-o", folder / "s.npz", "--framerate", 30, "--jobs", 1, "--json"
        )

    def answer(self, folder: Path) -> dict[str, Any]:
        """Return spikes, and suite2p's file of them."""
        from cofem.calcium import load_deconvolution

        found = load_deconvolution(folder / "s.npz")
        return {"spikes": found.spikes, "spks": np.load(folder / "s.spks.npy")}

    def kept(self, folder: Path) -> int:
        """Return how many whole batches lie there."""
        from cofem.calcium import load_deconvolution

        parts = sorted(folder.glob(".s.npz.parts/[!.]*.npz"))
        whole = [*parts, *folder.glob("s.npz")]
        return sum(len(load_deconvolution(part).spikes) for part in whole)


@final
class Mri(Job):
    """``cofem mri``: images, and magnitude, phase and std for other programs."""

    name = "cofem mri"

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        image = np.kron(rng.random((4, 4)), np.ones((4, 4)))
        k = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image), norm="ortho"))
        self.source = folder / "k.npy"
        np.save(self.source, k * (rng.random(k.shape) < 0.6))

    def work(self, folder: Path) -> None:
        """Run the command twice, for two kinds of output."""
        for name in ("i.npz", "i.nii.gz"):
            _command("mri", self.source, "-o", folder / name, "--real", "--json")

    def answer(self, folder: Path) -> dict[str, Any]:
        """Return everything that both hold."""
        import nibabel

        with np.load(folder / "i.npz", allow_pickle=False) as held:
            found = {name: held[name] for name in ("image", "std")}
        for file in sorted(folder.glob("i*.nii.gz")):
            found[file.name] = np.asarray(nibabel.load(file).dataobj)
        return found

    def kept(self, folder: Path) -> int:
        """Return how many whole files lie there."""
        import nibabel

        for file in (files := sorted(folder.glob("i*"))):
            if file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as held:
                    assert np.isfinite(held["image"]).all()
            else:
                assert np.isfinite(np.asarray(nibabel.load(file).dataobj)).all()
        return len(files)


@final
class Paper(Job):
    """``cofem paper fig1`` with 64 unknowns, two panels and no picture."""

    name = "cofem paper fig1"

    def work(self, folder: Path) -> None:
        """Run the figure; its page is written whole."""
        from cofem.paper.figures import fig1
        from cofem.paper.study import Run

        fig1.SIZE, fig1.ITERATIONS = 64, 3
        fig1.PANELS = {"a": fig1.PANELS["a"], "b": fig1.PANELS["b"]}
        fig1.CONTESTANTS = (fig1.EXACT, fig1.AMP)
        fig1.check = lambda rows: []  # type: ignore[assignment]
        fig1.draw = lambda rows, run: run.out / "fig1.png"
        fig1.run_figure(Run(out=folder / "paper", quick=True, draws=1))

    def answer(self, folder: Path) -> dict[str, Any]:
        """Return all trials but their times, in the order of the file."""
        assert (folder / "paper" / "fig1.md").read_text(encoding="utf-8").endswith("\n")
        found = {}
        for panel in "ab":
            with open(folder / "paper" / f"fig1{panel}.csv", encoding="utf-8") as stream:
                rows = [
                    (r["x"], r["seed"], r["method"], float(r["nrmse"]))
                    for r in csv.DictReader(stream)
                ]
            found[panel] = np.array([row[3] for row in rows])
            assert len(set(rows)) == len(rows)
        return found

    def kept(self, folder: Path) -> int:
        """Return how many whole lines lie there."""
        files = folder.glob("paper/fig1?.csv")
        return sum(max(0, file.read_bytes().count(b"\n") - 1) for file in files)
