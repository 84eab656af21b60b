"""Bad input at scale: every reader under a coverage-guided fuzzer.

    pip install atheris
    python benchmarks/fuzz.py [--seconds 60] [--only "array .npy"] [--keep FOLDER]

Writes benchmarks/results/fuzz.md. The seconds are the clock's, for every reader. The inputs that
reached new places are kept in a folder outside the repository, and the next run begins with them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import fuzz_readers
from common import written_by_hand

HERE = Path(__file__).parent
RESULT = HERE / "results" / "fuzz.md"
HANG, MOST_BYTES = 5, 1 << 16


class Zygote:
    """The process that has imported everything and forks for every reader."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, HERE / "fuzz_child.py"], stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, name: str, folder: Path, arguments: list[str]) -> tuple[int, str]:
        """Return the exit code and what libFuzzer said."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, str(folder), *arguments]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return code, (folder / "log").read_text(encoding="utf-8", errors="replace")

    def worked(self) -> float:
        """Return the processor seconds of the forks so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")


def fuzz(
    zygote: Zygote, name: str, seconds: int, seed: int, keep: Path
) -> tuple[str, list[str]]:  # fmt: skip
    """Run one reader; return its line of the table and what was found."""
    keep = keep / name.replace(" ", "_").replace(",", "")
    (keep / "corpus").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        folder, began = Path(at), zygote.worked()
        code, said = zygote.run(name, folder, [
            str(keep / "corpus"), str(folder / "corpus"), f"-timeout={HANG}",
            f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", f"-seed={seed}",
            f"-artifact_prefix={folder}/", "-print_final_stats=1", "-rss_limit_mb=2048",
        ])  # fmt: skip
        spent = zygote.worked() - began
        findings = []
        if (folder / "findings.json").exists():
            findings = json.loads((folder / "findings.json").read_text())
        ended = next((w for w in ("timeout-", "oom-", "crash-") if list(folder.glob(f"{w}*"))), "")
        if code or ended:
            last = [line for line in said.splitlines() if line.strip()][-25:]
            findings.append(f"ended with {code} {ended}: {' / '.join(last)[-600:]}")
        for file in [*folder.glob("finding*"), *folder.glob("*-*")]:
            if file.is_file():
                (keep / file.name).write_bytes(file.read_bytes())
    runs = re.findall(r"^#(\d+)", said, re.MULTILINE)
    coverage = re.findall(r"cov: (\d+)", said)
    features = re.findall(r"ft: (\d+)", said)
    total = {"runs": 0, "seconds": 0.0, "first": int(coverage[0]) if coverage else 0}
    if (keep / "total.json").exists():
        total = json.loads((keep / "total.json").read_text(encoding="utf-8"))
    total["runs"] += int(runs[-1]) if runs else 0
    total["seconds"] += spent
    (keep / "total.json").write_text(json.dumps(total), encoding="utf-8")
    line = (
        f"| {name} | {total['runs']:,} | {total['seconds']:.0f} | {total['first']} → "
        f"{coverage[-1] if coverage else '–'} | {features[-1] if features else '–'} | "
        f"{len(findings)} |"
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
        "alone to the end. Files and seconds are those of all runs so far with one folder of kept "
        "inputs; the findings are the last run's.", "",
        "| reader | files read | processor seconds | coverage | features | findings |",
        "|---|---|---|---|---|---|", *lines, "",
        *(["## Findings", "", *findings, ""] if findings else []),
    ]) + written_by_hand(RESULT), encoding="utf-8")  # fmt: skip


def earlier() -> dict[str, str]:
    """Return the lines of the table that is there, by reader; those that run again are replaced."""
    text = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
    cells = {line.split("|")[1].strip(): line for line in text.splitlines() if line[:2] == "| "}
    return {name: line for name, line in cells.items() if name in fuzz_readers.READERS}


def main() -> None:
    """Fuzz the readers one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, default=Path.home() / ".cache" / "cofem-fuzz")
    asked = parser.parse_args()
    lines = earlier()
    findings: list[str] = []
    zygote = Zygote()
    for name in fuzz_readers.READERS:
        if asked.only in name:
            line, found = fuzz(zygote, name, asked.seconds, asked.seed, asked.keep)
            lines[name] = line
            findings += [f"- {name}: {text}" for text in found]
            print(line, *found, sep="\n  ", flush=True)
            write(
                [*lines.values()], findings, f"python benchmarks/fuzz.py --seconds {asked.seconds}"
            )


if __name__ == "__main__":
    main()
