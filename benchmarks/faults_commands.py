"""The commands that are killed: ``cofem calcium``, ``mri`` and ``paper`` on small problems."""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import io
from pathlib import Path
from typing import Any, final

import numpy as np

from faults_jobs import Job, Tick, counting, idle

BATCHES = 3  # of calcium's cells


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
        from cofem.calcium import deconvolve
        from cofem.calcium import simulate as traces

        self.deconvolve = deconvolve
        self.source = folder / "dff.npy"
        np.save(self.source, traces(n_cells=2 * BATCHES, n_frames=300)[0])

    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Run the command; a finished batch is kept for the next run."""
        import cofem.calcium

        # The package's attribute of that name is the command itself.
        importlib.import_module("cofem.cli.calcium").BATCH = 2  # type: ignore[attr-defined]
        cofem.calcium.deconvolve = counting(self.deconvolve, tick)
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
        for whole in [*parts, *folder.glob("s.npz")]:
            assert np.isfinite(load_deconvolution(whole).spikes).all()
        return BATCHES if self.delivered(folder) else len(parts)

    def delivered(self, folder: Path) -> bool:
        """Whether both files are there; the batches are removed then, and a new run begins anew."""
        return (folder / "s.npz").exists() and (folder / "s.spks.npy").exists()


@final
class Mri(Job):
    """``cofem mri``: images, and magnitude, phase and std for other programs.

    Nothing of a reconstruction is kept before its end, so it is made once, and what is tried is
    everything around it.
    """

    name = "cofem mri"

    def __init__(self, folder: Path) -> None:
        import cofem.mri

        reconstruct = cofem.mri.reconstruct
        made: list[Any] = []

        @functools.wraps(reconstruct)
        def once(*arguments: Any, **options: Any) -> Any:
            if not made:
                made.append(reconstruct(*arguments, **options))
            return made[0]

        cofem.mri.reconstruct = once
        rng = np.random.default_rng(0)
        image = np.kron(rng.random((4, 4)), np.ones((4, 4)))
        k = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image), norm="ortho"))
        self.source = folder / "k.npy"
        np.save(self.source, k * (rng.random(k.shape) < 0.6))

    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Run the command twice, for two kinds of output; nothing is resumed."""
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
        """Read the files; the command does everything again."""
        import nibabel

        for file in sorted(folder.glob("i*")):
            if file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as held:
                    assert np.isfinite(held["image"]).all()
            else:
                assert np.isfinite(np.asarray(nibabel.load(file).dataobj)).all()
        return 0


@final
class Paper(Job):
    """``cofem paper fig1`` with 64 unknowns, two panels and no picture."""

    name = "cofem paper fig1"

    def __init__(self) -> None:
        from cofem.paper.figures import fig1

        self.measure = fig1.measure

    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Run the figure; its page is written whole."""
        from cofem.paper.figures import fig1
        from cofem.paper.study import Run

        fig1.SIZE, fig1.ITERATIONS = 64, 3
        fig1.PANELS = {"a": fig1.PANELS["a"], "b": fig1.PANELS["b"]}
        fig1.CONTESTANTS = (fig1.EXACT, fig1.AMP)
        fig1.measure = counting(self.measure, tick)
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
        """Return how many whole lines lie there besides the headers."""
        files = folder.glob("paper/fig1?.csv")
        return sum(max(0, file.read_bytes().count(b"\n") - 1) for file in files)
