"""Bad input at scale: every reader under a coverage-guided fuzzer.

    pip install atheris
    python benchmarks/fuzz.py [--seconds 60] [--only "array .npy"]

Writes benchmarks/results/fuzz.md. The seconds are the clock's, for every reader.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import fuzz_readers

HERE = Path(__file__).parent
RESULT = HERE / "results" / "fuzz.md"
HANG, MOST_BYTES = 5, 1 << 16


def worked() -> float:
    """Return the processor seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(name: str, seconds: int, seed: int) -> tuple[str, list[str]]:
    """Run one reader; return its line of the table and what was found."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        folder = Path(at)
        corpus = fuzz_readers.corpus(name, folder)
        began = worked()
        child = subprocess.run(
            [sys.executable, HERE / "fuzz_child.py", name, folder, corpus, f"-timeout={HANG}",
             f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", f"-seed={seed}",
             f"-artifact_prefix={folder}/", "-print_final_stats=1", "-rss_limit_mb=2048"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        spent = worked() - began
        findings = []
        if (folder / "findings.json").exists():
            findings = json.loads((folder / "findings.json").read_text())
        ended = next((w for w in ("timeout-", "oom-", "crash-") if list(folder.glob(f"{w}*"))), "")
        if child.returncode or ended:
            last = [line for line in child.stderr.splitlines() if line.strip()][-25:]
            findings.append(f"ended with {child.returncode} {ended}: {' / '.join(last)[-600:]}")
        keep = Path(tempfile.gettempdir(), "cofem-fuzz", name.replace(" ", "_").replace(",", ""))
        for file in [*folder.glob("finding*"), *folder.glob("*-*")]:
            keep.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                (keep / file.name).write_bytes(file.read_bytes())
    runs = re.findall(r"^#(\d+)", child.stderr, re.MULTILINE)
    coverage = re.findall(r"cov: (\d+)", child.stderr)
    features = re.findall(r"ft: (\d+)", child.stderr)
    first, last = (coverage[0], coverage[-1]) if coverage else ("–", "–")
    line = (
        f"| {name} | {int(runs[-1]) if runs else 0:,} | {spent:.0f} | {first} → {last} | "
        f"{features[-1] if features else '–'} | {len(findings)} |"
    )
    return line, findings


def write(lines: list[str], findings: list[str], command: str) -> None:
    """Write what is there so far."""
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    RESULT.write_text("\n".join([
        "# Bad input at scale", "",
        f"`{command}`, {when}, Python {platform.python_version()}, "
        f"atheris {metadata.version('atheris')}.", "",
        "Every reader gets files that a coverage-guided fuzzer makes from small real ones; inside "
        "archives the members are changed, so that checksums hold. A reader may return something "
        "or raise ValueError or OSError with one line of text. A finding is any other exception, a "
        f"crash, {HANG} s without an answer, or more than 512 MiB for a file of at most "
        f"{MOST_BYTES >> 10} KiB. Coverage counts branches of our own readers, from the real files "
        "alone to the end.", "",
        "| reader | files read | processor seconds | coverage | features | findings |",
        "|---|---|---|---|---|---|", *lines, "",
        *(["## Findings", "", *findings, ""] if findings else []),
    ]), encoding="utf-8")  # fmt: skip


def main() -> None:
    """Fuzz the readers one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    lines: list[str] = []
    findings: list[str] = []
    for name in fuzz_readers.READERS:
        if asked.only in name:
            line, found = fuzz(name, asked.seconds, asked.seed)
            lines.append(line)
            findings += [f"- {name}: {text}" for text in found]
            print(line, *found, sep="\n  ", flush=True)
            write(lines, findings, f"python benchmarks/fuzz.py --seconds {asked.seconds}")


if __name__ == "__main__":
    main()
