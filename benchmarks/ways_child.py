"""Small fits of every kind, whose answers are written down: ``ways_child.py WAY OUT.npz``.

What ``ways_to_run.py`` starts in other Pythons and other circumstances. The ways: ``plain``,
``fork``, ``spawn``, ``threads`` and ``memory:N``.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

THREADS, PROCESSES = 8, 2
Answers = dict[str, np.ndarray]


def _sparse(seed: int, n: int = 20, d: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) / np.sqrt(n)
    z = np.where(rng.random(d) < 0.1, rng.normal(size=d), 0.0)
    return phi, phi @ z + 0.01 * rng.normal(size=n)


def _fit(**options: Any) -> Callable[[], Any]:
    def run() -> Any:
        import cofem

        return cofem.fit(*_sparse(0), **options)

    return run


def _dct() -> Any:
    import cofem

    made = cofem.simulate.dct(256, seed=0)
    return cofem.fit(made.phi, made.y, noise_precision=made.noise_precision, method="cofem")


def _joint() -> Any:
    import cofem

    phi, y = _sparse(0)
    return cofem.fit(phi, np.stack([y, 0.5 * y]), noise_precision=1e4, prior="ard")


def _complex() -> Any:
    import cofem

    phi, y = _sparse(0)
    phi = phi + 1j * _sparse(1)[0]
    return cofem.fit(phi, phi[:, 3] + 0.01 * y, noise_precision=1e4, method="woodbury")


def _nearly_alike() -> Any:
    import cofem

    phi, _ = _sparse(2)
    phi[:, 1] = phi[:, 0] + 0.05 * phi[:, 2]  # sampled: the two compiled chains
    return cofem.fit(phi, phi[:, 0] + 0.01 * _sparse(3)[0][:, 0])


def _saved() -> Any:
    import cofem

    with tempfile.TemporaryDirectory() as folder:
        _fit(noise_precision=1e4)().save(Path(folder, "p.npz"))
        return cofem.load(Path(folder, "p.npz"))


CASES: dict[str, Callable[[], Any]] = {
    "EM": _fit(noise_precision=1e4, prior="ard", method="em"),
    "nothing told": _fit(),
    "CoFEM, a DCT": _dct,
    "joint tasks": _joint,
    "complex": _complex,
    "z ≥ 0": _fit(nonnegative=True, noise_precision=1e4),
    "columns alike": _nearly_alike,
    "saved, loaded": _saved,
}


def answer(name: str) -> Answers:
    """Return the mean and the variance of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ConvergenceWarning among them
        post = CASES[name]()
    return {f"{name}: mean": np.asarray(post.mean), f"{name}: variance": np.asarray(post.variance)}


def answers(_: int = 0) -> Answers:
    """Return those of all cases."""
    return {key: value for name in CASES for key, value in answer(name).items()}


def spikes() -> Answers:
    """Return spikes and the results of fit_many, with two processes of joblib's."""
    import cofem
    from cofem.calcium import deconvolve, simulate

    phi, y = _sparse(0)
    many = cofem.fit_many(
        phi, np.stack([y, 2 * y, 3 * y, 4 * y]), noise_precision=1e4, n_jobs=PROCESSES
    )
    found = deconvolve(simulate(n_cells=2, n_frames=300)[0], 30.0, n_jobs=1)
    return {"fit_many": np.array(many.mean), "calcium": found.spikes}


def agreed(found: list[Answers]) -> Answers:
    """Return the first; all others must be the same, bit for bit."""
    for other in found[1:]:
        for name, value in found[0].items():
            if other[name].tobytes() != value.tobytes():
                raise SystemExit(f"{name}: another answer")
    return found[0]


def in_processes(start: str) -> Answers:
    """Fit here, and then in two processes; after a fork the threads of the first are gone."""
    here = answers()
    with multiprocessing.get_context(start).Pool(PROCESSES) as pool:
        return agreed([here, *pool.map(answers, range(PROCESSES), chunksize=1)])


def in_threads() -> Answers:
    """Fit in eight threads at once, each with the cases in its own order."""
    alone = answers()

    def turned(first: int) -> Answers:
        names = [*CASES]
        order = names[first % len(names) :] + names[: first % len(names)]
        return {key: value for name in order for key, value in answer(name).items()}

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return agreed([alone, *pool.map(turned, range(THREADS))])


def resident() -> int:
    """Return the bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(count: int) -> Answers:
    """Fit so many tiny problems; return how much memory was held after each tenth."""
    import cofem

    rng = np.random.default_rng(0)
    phi = rng.normal(size=(6, 8))
    held = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for number in range(count):
            y = phi[:, number % 8] + 0.01 * rng.normal(size=6)
            kind: dict[str, Any] = {"prior": "ard", "method": "em", "noise_precision": 1e4}
            cofem.fit(phi, y, max_iter=1, **({} if number % 20 == 0 else kind))
            if (number + 1) % (count // 10) == 0:
                held.append(resident())
    return {"held": np.array(held)}


def main() -> None:
    """Run one way and write the answers."""
    way, out = sys.argv[1], sys.argv[2]
    if way == "threads":
        found = in_threads()
    elif way in ("fork", "spawn"):
        found = in_processes(way)
    elif way.startswith("memory:"):
        found = memory(int(way.split(":")[1]))
    else:
        found = answers() | spikes()
    import numba
    import scipy

    numbers = [np.__version__, scipy.__version__, numba.__version__]
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()  # what was imported may turn it on
    np.savez(out, versions=[sys.version.split()[0], *numbers], lock=lock, **found)


if __name__ == "__main__":
    main()
