"""Checkpoints: the state of the loop in a file, so that a fit that was killed can be resumed.

Every random number depends only on the seed and the number of the iteration, so a resumed run
gives the result of the uninterrupted run, bit for bit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from cofem import backend
from cofem.backend.distributed import Group
from cofem.files import atomic_write, fingerprint, read_archive
from cofem.learning.loop import LoopState
from cofem.learning.recording import empty_history
from cofem.model.methods import Method
from cofem.model.model import Model

FORMAT = "cofem checkpoint 1"
EVERY = 10


class Checkpoint:
    """One file with the state of a fit.

    Parameters
    ----------
    path : path
        Written every ``every`` iterations; read when the fit starts, if it exists.
    model : Model
        The problem. A file of another problem is refused.
    method, seed, prior
        How it is fitted. A file of other settings is refused.
    every : int
        Iterations between two writes.
    """

    def __init__(
        self, path: Any, model: Model, method: Method, seed: int, every: int = EVERY,
        prior: str = "ard",
    ) -> None:  # fmt: skip
        self._path, self._every, self._model = os.fspath(path), every, model
        self._problem = fingerprint(_pieces(model, method, seed, prior))
        self._noise: list[float] | None = None
        self._state: LoopState | None = None
        if os.path.exists(self._path):
            self._read()
        elif os.path.islink(self._path):  # starting anew might throw days of work away
            raise FileNotFoundError(
                f"checkpoint: {self._path} is a link that leads to no file "
                f"({os.readlink(self._path)}); make the file reachable again, or delete the link "
                "to start anew"
            )

    @property
    def noise_precisions(self) -> list[float] | None:
        """The noise precision of every task, if it has been estimated already."""
        return self._noise

    def found_noise(self, noise_precisions: list[float], products: int) -> None:
        """Store the estimate of the noise."""
        self._noise, self._searched = noise_precisions, products
        self._write(None)

    @property
    def searched(self) -> int:
        """The number of products that the estimate of the noise took."""
        return getattr(self, "_searched", 0)

    @property
    def seconds(self) -> float:
        """How long the fit had run until the state was kept."""
        return self._state.history["seconds"][-1] if self._state is not None else 0.0

    def agree(self, group: Group) -> None:
        """Refuse to go on where the processes of a group hold different states."""
        at = 0 if self._state is None else self._state.iteration
        found = group.gather((at, self._noise))
        if any(other != found[0] for other in found):
            iterations = ", ".join(str(iteration) for iteration, _ in found)
            raise ValueError(
                f"checkpoint: the processes hold the states of iterations {iterations}; give all "
                "of them one file, on a disk that they share, or copy one of theirs to the others"
            )

    def resume(self) -> LoopState | None:
        """Return the state to go on from."""
        return self._state

    def keep(self, state: LoopState) -> None:
        """Write the state, every few iterations."""
        if state.iteration % self._every == 0:
            self._write(state)

    # -- the file --------------------------------------------------------------

    def _write(self, state: LoopState | None) -> None:
        about = {
            "format": FORMAT,
            "problem": self._problem,
            "noise": self._noise,
            "searched": self.searched,
            "iteration": 0 if state is None else state.iteration,
            "products": 0 if state is None else state.products,
        }
        arrays = {"about": np.asarray(json.dumps(about))}
        if state is not None:
            for name, value in state.rule.items():
                arrays[f"rule_{name}"] = value
            for i, mean in enumerate(state.means):
                arrays[f"mean_{i}"] = backend.to_numpy(mean)
            for name, values in state.history.items():
                arrays[f"history_{name}"] = np.asarray(values, dtype=np.float64)
        with atomic_write(self._path) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    def _read(self) -> None:
        try:
            arrays = read_archive(self._path, "checkpoint")
            about = json.loads(str(arrays.pop("about")))
            if about["format"] != FORMAT:
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"checkpoint: {self._path} is not a checkpoint of cofem") from None
        if about.get("problem") != self._problem:
            raise ValueError(
                f"checkpoint: {self._path} belongs to another problem or other settings; "
                "name another file, or delete it to start anew"
            )
        try:
            self._noise, self._searched = about["noise"], about["searched"]
            if about["iteration"]:
                self._state = self._state_of(about, arrays)
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"checkpoint: {self._path} is damaged; delete it to start anew"
            ) from None

    def _state_of(self, about: dict[str, Any], arrays: dict[str, Any]) -> LoopState:
        counts = ("iteration", "cg_steps", "products")
        history = {
            name: [int(v) if name in counts else float(v) for v in arrays[f"history_{name}"]]
            for name in empty_history()
        }
        means = [
            backend.from_numpy(arrays[f"mean_{i}"], self._model.like)
            for i in range(sum(name.startswith("mean_") for name in arrays))
        ]
        rule = {n.removeprefix("rule_"): v for n, v in arrays.items() if n.startswith("rule_")}
        if "alpha" in arrays:  # written before site rules had a state of their own
            rule["alpha"] = arrays["alpha"]
        return LoopState(about["iteration"], rule, means, about["products"], history)


def _pieces(model: Model, method: Method, seed: int, prior: str) -> Iterator[Any]:
    """Yield everything that determines the result, as far as it can be read."""
    for task in model.tasks:
        y = backend.to_numpy(task.y)
        yield type(task.operator).__name__, task.operator.shape, str(y.dtype), y.shape
        yield y
        yield (task.noise_precision,)
        # One product distinguishes two operators of the same class and shape.
        yield backend.to_numpy(task.operator.adjoint(task.y))
    labels = model.tie.labels
    yield (None if labels is None else fingerprint([labels]),)
    yield model.nonnegative, model.tie.coupling is None, model.n_precisions, seed
    yield method.name, sorted((k, repr(v)) for k, v in asdict(method).items())
    if prior != "ard":
        yield (prior,)
