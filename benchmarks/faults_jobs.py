"""The jobs that are killed: what a job is, and those of Python's doors."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np

import cofem
from cofem import simulate
from cofem.many.one_by_one import fit_rows

Tick = Callable[[], None]


def idle() -> None:
    """Count nothing."""


class Job(ABC):
    """Something that writes, what can be read of it at any moment, and its answer.

    ``late`` is how many finished units a kill may cost: those that are not written yet.
    """

    name = ""
    late = 1

    @abstractmethod
    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Do everything, or what is left of it; ``tick`` after every unit."""

    @abstractmethod
    def answer(self, folder: Path) -> dict[str, Any]:
        """Read the finished output."""

    @abstractmethod
    def kept(self, folder: Path) -> int:
        """Read what a killed run left; count the units that the next run need not do again.

        Raises if it is unreadable.
        """

    def delivered(self, folder: Path) -> bool:
        """Whether all is written, and a further run does the work anew."""
        return False


@final
class Fit(Job):
    """``fit`` with a checkpoint, and the posterior's file."""

    name = "fit(checkpoint=…), post.save"
    late = 10  # iterations between two checkpoints

    def __init__(self) -> None:
        self.problem = simulate.gaussian(48, 0, undersampling=2, sparsity=0.1)

    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Fit for 40 iterations: four checkpoints."""

        def counted(state: Any) -> bool:
            tick()
            return False

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cofem.ConvergenceWarning)
            post = cofem.fit(
                self.problem.phi, self.problem.y, noise_precision=self.problem.noise_precision,
                method="em", prior="ard", max_iter=40, tol=0.0, checkpoint=folder / "c.npz",
                callback=counted,
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

    def _fit(self, folder: Path, tick: Tick = idle) -> Any:
        from cofem.many import committing, running

        # Every result is committed as it comes, so that there is much to interrupt.
        committing.COMMIT_SECONDS = running.CHUNK_SECONDS = 0.0  # type: ignore[attr-defined]
        running.fit_rows = counting(fit_rows, tick)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cofem.ConvergenceWarning)
            return cofem.fit_many(
                self.phi, self.Y, noise_precision=100.0, method="em", prior="ard", max_iter=10,
                tol=0.0, n_jobs=1, store=folder / self.store,
            )  # fmt: skip

    def work(self, folder: Path, tick: Tick = idle) -> None:
        """Fit what is pending."""
        self._fit(folder, tick)

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


def counting(function: Callable[..., Any], tick: Tick) -> Callable[..., Any]:
    """Return the same function, which ticks when it ends."""

    def counted(*arguments: Any, **options: Any) -> Any:
        found = function(*arguments, **options)
        tick()
        return found

    return counted


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
