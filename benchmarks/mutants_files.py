"""Which files of tests may notice a mutant."""

from __future__ import annotations

import re
from pathlib import Path

from mutants_tests import importers

MUTATED = ("learning", "solvers")
TESTED = ["tests/learning", "tests/solvers", "src/cofem/learning", "src/cofem/solvers"]


def near_compiled(folder: Path) -> list[str]:
    """Return the test files that run what numba compiles without much around it.

    Those of the solvers, and those that import a module that is compiled or imports such a one.
    """
    package = folder / "src" / "cofem"
    paths = [path for part in MUTATED for path in (package / part).rglob("*.py")]
    own = {p.relative_to(package).as_posix() for p in paths if "@compiled" in p.read_text("utf-8")}
    imports = "|".join(
        f"{whole} import|{whole.rpartition('.')[0]} import .*\\b{whole.rpartition('.')[2]}\\b"
        for whole in (f"cofem.{n[:-3].replace('/', '.')}" for n in own | importers(package, own)[0])
    )
    return [
        path.relative_to(folder).as_posix()
        for path in sorted((folder / "tests").rglob("test_*.py"))
        if "solvers" in path.parts or re.search(f"from ({imports})", path.read_text("utf-8"))
    ]


def test_files(folder: Path) -> list[str]:
    """Return the files of tests, and those with examples."""
    found = [p for part in TESTED for p in sorted((folder / part).rglob("*.py"))]
    tests = [p for p in found if p.name.startswith("test_") or ">>>" in p.read_text("utf-8")]
    return [path.relative_to(folder).as_posix() for path in tests]
