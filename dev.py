#!/usr/bin/env python3
"""Set up a virtual environment and run something in it.

    python3 dev.py demo [ARGUMENTS]   the demonstration: cofem demo ARGUMENTS
    python3 dev.py test [ARGUMENTS]   all tests: pytest ARGUMENTS
    python3 dev.py test --no-torch    the same without installing torch; its tests are skipped
    python3 dev.py lint               ruff and mypy
    python3 dev.py docs               the documentation, in site/; a warning is an error

Needs nothing but Python 3.11 or newer with venv and pip. The environment is .venv
beside this file; it is installed anew only when pyproject.toml has changed.

torch from the usual index brings the CUDA libraries on Linux: gigabytes that a CPU does not
need. --no-torch avoids it; so does installing a CPU build of torch into .venv first.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "cofem-dev.json"
OLDEST = (3, 11)
# A warning is an error, all of them are shown, nothing is kept from the last time.
SPHINX = ("-b", "html", "-W", "--keep-going", "-q", "-E", "-d", ".venv/doctrees")
# Measured on Linux with Python 3.11: docs/install.md has the table.
SIZES = {
    (): "about 150 MB to download, 600 MB on the disk; one to three minutes",
    ("torch-test",): "torch alone is 200 MB (CPU) or several GB (with CUDA libraries)",
}


def main(arguments):
    """Run the command that ``arguments`` names; return its exit code."""
    if sys.version_info < OLDEST:
        have = ".".join(map(str, sys.version_info[:3]))
        return complain(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is {have}")
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if command in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    if command == "demo":
        python = environment(extras=())
        return call(python, "-m", "cofem", "demo", *rest)
    if command == "test":
        torch = () if "--no-torch" in rest else ("torch-test",)
        rest = [word for word in rest if word != "--no-torch"]
        python = environment(extras=("test", "lint", *torch))
        # The matrices of the tests are small: BLAS threads would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return call(python, "-m", "pytest", *rest, where=ROOT)
    if command == "lint" and not rest:
        python = environment(extras=("test", "lint"))
        codes = [
            call(python, "-m", "ruff", "check", ".", where=ROOT),
            call(python, "-m", "mypy", where=ROOT),
        ]
        return max(codes)
    if command == "docs" and not rest:
        # The tutorials run while the site is built: it needs what the tests need.
        python = environment(extras=("test", "docs"))
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        code = call(python, "-m", "sphinx", *SPHINX, "docs", "site", where=ROOT)
        if code == 0:
            note(f"open {ROOT / 'site' / 'index.html'}")
        return code
    return complain(f"unknown command {' '.join(arguments)!r}; see python3 dev.py --help")


def environment(extras):
    """Return the Python of .venv, with the package and ``extras`` installed."""
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = {
        "pyproject": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
        "root": str(ROOT),  # an editable install points here
    }
    installed = read_stamp()
    here = python.exists() and all(installed.get(key) == wanted[key] for key in wanted)
    have = set(installed.get("extras", ())) if here else set()
    if here and set(extras) <= have:
        return python
    if not has_pip(python):
        note(f"creating {VENV}")
        must(
            [sys.executable, "-m", "venv", str(VENV)],
            "cannot create a virtual environment; on Debian and Ubuntu, install python3-venv",
        )
    asked = sorted(have | set(extras))
    note("installing cofem" + (f" with {', '.join(asked)}" if asked else ""))
    for part, size in SIZES.items():
        if set(part) <= set(asked) - have and not (part == () and here):
            note(size)
    STAMP.unlink(missing_ok=True)  # whatever happens now, the old stamp is no longer true
    target = str(ROOT) + (f"[{','.join(asked)}]" if asked else "")
    pip_install(python, target)
    STAMP.write_text(json.dumps(dict(wanted, extras=asked)), encoding="utf-8")
    return python


def pip_install(python, target):
    """Install, and say in a line each what pip fetches: it is otherwise silent for minutes."""
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
    began, said = time.monotonic(), []
    with subprocess.Popen(
        [*pip, "--progress-bar=off", "--editable", target],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        for line in process.stdout:
            said.append(line)
            words = line.split()
            if words[:1] == ["Downloading"] or words[:2] == ["Using", "cached"]:
                named = words[2] if words[0] == "Using" else words[1]
                note(f"  {named.rsplit('/', 1)[-1].split('-')[0]} {' '.join(words[-2:])}")
            elif words[:1] == ["Installing"] and "packages:" in words:
                note(f"  unpacking {line.count(',') + 1} packages; this is the longest part")
                threading.Thread(target=say_how_much, args=(process,), daemon=True).start()
    if process.returncode:
        print("".join(said[-40:]), file=sys.stderr)
        sys.exit(complain("installation failed; the last lines of pip are above"))
    note(f"installed in {time.monotonic() - began:.0f} s")


def say_how_much(process, every=15):
    """Say how large the environment has become while pip unpacks, which it does in silence."""
    while True:
        try:
            process.wait(every)
            return
        except subprocess.TimeoutExpired:
            size = 0
            for top, _, names in os.walk(VENV):
                for name in names:
                    with contextlib.suppress(OSError):  # pip moves files while this looks
                        size += os.lstat(os.path.join(top, name)).st_size
            note(f"  … {size / 1e6:.0f} MB on the disk")


def read_stamp():
    """Return what the last complete installation wrote, or nothing."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def has_pip(python):
    """Whether the environment is there and whole."""
    if not python.exists():
        return False
    probe = subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True)
    return probe.returncode == 0


def call(*command, where=None):
    """Run a command, in ``where`` or the current directory; return its exit code."""
    return subprocess.run([str(part) for part in command], cwd=where).returncode


def must(command, complaint):
    """Run a command that has to succeed."""
    code = subprocess.run(command).returncode
    if code:
        sys.exit(complain(complaint))


def note(message):
    """Say what takes a while."""
    print(f"dev.py: {message}", file=sys.stderr, flush=True)


def complain(message):
    """Say what is wrong; return the exit code for it."""
    print(f"dev.py: error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
