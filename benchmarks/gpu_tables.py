"""What the parts of the GPU benchmark share: the device, its description, and tables."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import torch

CUDA = torch.device("cuda")


def header(quick: bool) -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in ("torch", "triton", "numpy"))
    command = "python benchmarks/gpu.py" + (" --quick" if quick else "")
    return (
        "# On one GPU\n\n"
        f"{datetime.date.today().isoformat()}, {torch.cuda.get_device_name()}, "
        f"Python {platform.python_version()}, {versions}, CUDA {torch.version.cuda}. "
        f"Command: `{command}`.\n"
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
