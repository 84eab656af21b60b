"""The Markdown page of a figure: the setting, the picture, and claim by claim what held."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from cofem import backend
from cofem.files import atomic_write
from cofem.paper.claims import Claim
from cofem.paper.study import Run


def write_page(
    path: Path,
    title: str,
    run: Run,
    setting: Sequence[str],
    pictures: Sequence[Path],
    claims: Sequence[Claim],
    notes: Sequence[str] = (),
) -> Path:
    """Write the page whole or not at all."""
    lines = [f"# {title}", ""]
    if run.quick:
        lines += ["Quick run: fewer trials, points and sizes than the paper's.", ""]
    lines += [*(f"- {line}" for line in (*setting, *machine())), ""]
    lines += [line for picture in pictures for line in (f"![{title}]({picture.name})", "")]
    lines += ["## What the paper says, and what came out", ""]
    lines += [*(f"- {claim}" for claim in claims), ""]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    with atomic_write(path, "w") as stream:
        stream.write("\n".join(lines))
    return path


def machine() -> list[str]:
    """Return date and machine, without which a time has no meaning."""
    versions = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "cofem"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:  # a source tree that is not installed
            continue
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        f"{when}; {', '.join(versions)}",
        f"{processor()}, {os.cpu_count()} cores, {backend.n_threads()} threads{load}",
    ]


def processor() -> str:
    """Return what the system calls its processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
