"""Other ways to run: other Pythons, no place to write, processes, threads.

    python benchmarks/ways_to_run.py [--only threads,fork] [--fits 100000] [--python PATH …]

Every way computes the cases of ``ways_child.py`` and is compared with this Python as it is: bit
for bit where Python, NumPy, SciPy and numba are the same, else by the largest difference relative
to the largest entry. Writes benchmarks/results/ways_to_run.md; lines of ways that are not run
again stay.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from common import written_by_hand

HERE = Path(__file__).parent
CHILD, RESULT = HERE / "ways_child.py", HERE / "results" / "ways_to_run.md"
PACKAGE = HERE.parent / "src" / "cofem"
LIMIT = 1800  # seconds for a way; for many fits in one process, for every 20,000 of them
# Sums in another order, and other versions of numba: what stays equal is this.
CLOSE = 1e-6
# What the name of a Python without the global lock ends with; entries that are no answers.
FREE, ABOUT = " free-threaded", ("versions", "lock")
# Growth per fit that would be a leak: an object of Python's has 16 bytes and more.
LEAK = 16
# Root may write everywhere unless these two are taken away.
PLAIN_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
NOTEBOOK = """
import sys
sys.path.insert(0, {folder!r})
import ways_child, numpy as np, cofem
found = ways_child.answers()
np.savez({out!r}, versions=[""], **found)
phi, y = ways_child._sparse(0)
post = cofem.fit(phi, y, noise_precision=1e4, progress=True)
post
"""


class Ways:
    """Runs each way and keeps its line of the table."""

    def __init__(self, folder: Path, fits: int, pythons: Sequence[str]) -> None:
        self.folder, self.fits, self.pythons = folder, fits, pythons
        self.reference = self._child("plain")

    def all(self) -> dict[str, Callable[[], str]]:
        """Return every way by its name."""
        ways: dict[str, Callable[[], str]] = {
            "PYTHONOPTIMIZE=1": lambda: self._same(self._child("plain", {"PYTHONOPTIMIZE": "1"})),
            "PYTHONOPTIMIZE=2": lambda: self._same(self._child("plain", {"PYTHONOPTIMIZE": "2"})),
            "read-only installation": self.read_only,
            "read-only installation, no home": self.no_home,
            "a full disk for numba's cache": self.full_cache,
            "fork": lambda: self._same(self._child("fork")) + ", here and in 2 processes",
            "spawn": lambda: self._same(self._child("spawn")) + ", here and in 2 processes",
            "8 threads at once": lambda: (
                self._same(self._child("threads"))
                + ", alone and in 8 threads, each in its own order"
            ),
            "notebook kernel": self.notebook,
            f"{self.fits:,} fits in one process": self.memory,
        }
        for python in self.pythons:
            ways[f"another Python: {name_of(python)}"] = lambda p=python: self.other(p)
        return ways

    def _child(
        self, way: str, environment: Mapping[str, str | None] = {}, before: Sequence[str] = (),
        python: str = sys.executable, package: Path = PACKAGE, limit: float = LIMIT,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        out = self.folder / "out.npz"
        out.unlink(missing_ok=True)
        merged = {**os.environ, "PYTHONPATH": str(package.parent), **environment}
        done = subprocess.run(
            [*before, python, CHILD, way, out], capture_output=True, text=True, timeout=limit,
            env={name: value for name, value in merged.items() if value is not None}, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RuntimeError(said[-1][:300])
        with np.load(out) as held:
            return {name: held[name] for name in held.files}

    def _same(self, found: dict[str, np.ndarray]) -> str:
        expected = self.reference
        alike = list(found["versions"]) == list(expected["versions"])
        names = [name for name in expected if name in found and name not in ABOUT]
        worst, where = max((difference(found[name], expected[name]), name) for name in names)
        if alike and worst > 0:
            raise RuntimeError(f"not bit for bit: {worst:.1e} ({where})")
        if worst > CLOSE:
            raise RuntimeError(f"another answer: {worst:.1e} ({where})")
        count = f"{len(names)} arrays"
        return f"{count} bit for bit" if worst == 0 else f"{count} within {worst:.0e} ({where})"

    def read_only(self) -> str:
        """Run a copy that cannot be written to; numba's cache goes to the home then."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        with unwritable(self.folder) as package:
            found = self._child(
                "plain", {**homeless(), "HOME": str(home)}, PLAIN_USER, package=package
            )
        kept = len(list(home.rglob("*.nbc")))
        if not kept:
            raise RuntimeError("nothing in the home's cache: the installation was not read-only")
        return self._same(found) + f"; {kept} compiled functions kept in the home's cache"

    def no_home(self) -> str:
        """Run without any place for a cache."""
        with unwritable(self.folder) as package:
            places = {**homeless(), "HOME": "/proc/no/home"}
            return self._same(self._child("plain", places, PLAIN_USER, package=package))

    def full_cache(self) -> str:
        """Give numba a cache of 64 KiB; the compiled code does not fit."""
        place = self.folder / "cache"
        place.mkdir(exist_ok=True)
        mounted = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
        if subprocess.run(mounted, check=False, capture_output=True).returncode:
            return "not tried: no right to mount a small file system"
        try:
            return self._same(self._child("plain", {"NUMBA_CACHE_DIR": str(place)}))
        finally:
            subprocess.run(["umount", str(place)], check=True)

    def notebook(self) -> str:
        """Run the cases in a kernel, and show a posterior there."""
        import nbclient
        import nbformat

        out = str(self.folder / "notebook.npz")
        code = NOTEBOOK.format(folder=str(HERE), out=out)
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbclient.NotebookClient(book, timeout=LIMIT, kernel_name="python3").execute()
        with np.load(out) as held:
            found = {name: held[name] for name in held.files}
        found["versions"] = self.reference["versions"]
        outputs = book.cells[0].outputs
        if not any("text/html" in output.get("data", {}) for output in outputs):
            raise RuntimeError("the posterior is not shown as HTML")
        return self._same(found) + "; the posterior is shown as HTML"

    def memory(self) -> str:
        """Fit many tiny problems and look at the memory held."""
        limit = LIMIT * max(1.0, self.fits / 20_000)
        held = self._child(f"memory:{self.fits}", limit=limit)["held"] / 2**20
        grown = (held[-1] - held[len(held) // 2 - 1]) * 2**20 / (self.fits / 2)
        text = (
            f"{held[0]:.1f} MiB after a tenth, {held[4]:.1f} after half, {held[-1]:.1f} at the end"
        )
        if grown > LEAK:
            raise RuntimeError(f"{text}: {grown:.0f} bytes a fit")
        return text

    def other(self, python: str) -> str:
        """Run another Python, with its own NumPy, SciPy and numba.

        Without Python's lock the threads truly run at once: they are compared with its own answers.
        """
        found = self._child("plain", python=python)
        text = f"{' '.join(found['versions'])}: {self._same(found)}"
        if not name_of(python).endswith(FREE):
            return text
        if found["lock"]:
            raise RuntimeError("a module of the imported ones turned Python's lock on again")
        together = self._child("threads", python=python)
        worst, where = max((difference(held, found[name]), name)
                           for name, held in together.items() if name not in ABOUT)  # fmt: skip
        if worst > 0:
            raise RuntimeError(f"not bit for bit in 8 threads: {worst:.1e} ({where})")
        return f"{text}; lock off; bit for bit alone and in 8 threads at once"


def homeless() -> dict[str, str | None]:
    """Return what takes all known places for caches away."""
    return {"NUMBA_CACHE_DIR": None, "XDG_CACHE_HOME": None, "MPLCONFIGDIR": None}


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest entry."""
    if found.tobytes() == expected.tobytes():
        return 0.0
    scale = float(np.max(np.abs(expected)))
    return max(float(np.max(np.abs(found - expected))) / scale, np.finfo(float).tiny)


class unwritable:  # noqa: N801
    """A copy of the package that nobody may write to."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "site" / "cofem"

    def __enter__(self) -> Path:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, self.package, ignore=ignored)
        for place in (self.package, *self.package.rglob("*")):
            place.chmod(0o555 if place.is_dir() else 0o444)
        return self.package

    def __exit__(self, *error: object) -> None:
        for place in (self.package, *self.package.rglob("*")):
            place.chmod(0o755)
        shutil.rmtree(self.package)


def name_of(python: str) -> str:
    """Return the version of an interpreter, and whether it has Python's lock."""
    code = "import sys, sysconfig; print(sys.version.split()[0] + "
    code += f"'{FREE}' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    """Run the ways and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--fits", type=int, default=100_000)
    parser.add_argument("--python", nargs="*", default=[])
    asked = parser.parse_args()
    lines = earlier()
    with tempfile.TemporaryDirectory() as scratch:
        ways = Ways(Path(scratch), asked.fits, asked.python)
        for name, way in ways.all().items():
            if asked.only and not any(word in name for word in asked.only.split(",")):
                continue
            try:
                lines[name] = f"| {name} | yes | {way()} |"
            except RuntimeError as error:
                lines[name] = f"| {name} | **no** | {error} |"
            print(lines[name], flush=True)
            write(lines)


def earlier() -> dict[str, str]:
    """Return the lines of the table that is there."""
    text = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return {row.split("|")[1].strip(): row for row in rows}


def write(lines: Mapping[str, str]) -> None:
    """Write the table."""
    import numba
    import scipy

    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    RESULT.write_text("\n".join([
        "# Other ways to run", "",
        f"`python benchmarks/ways_to_run.py`, {when}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}, numba {numba.__version__}.", "",
        "Small fits of eight kinds, `fit_many` and calcium, compared with this Python as it is.",
        "",
        "| way | works | what was seen |", "|---|---|---|", *lines.values(), "",
    ]) + written_by_hand(RESULT), encoding="utf-8")  # fmt: skip


if __name__ == "__main__":
    main()
