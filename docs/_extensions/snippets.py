"""Run the code that a page shows, and compare what it prints with what the page says.

A block ```python is run; if a block ```text follows, it is what the code prints. A block
```console has commands behind ``$`` and what they print; commands that begin with ``cofem`` are
run. A comment ``<!-- not run: REASON -->`` in front leaves a block out.

Numbers may differ as rounding on another machine lets them: by 5 % or by one in the last digit
shown. A line ``…`` stands for any lines.

    python docs/_extensions/snippets.py docs/models.md     # write what is printed into the page
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"(?m)^(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?"
    r"```(?P<kind>[^\n`]*)\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<expected>.*?)^```$)?",
    re.DOTALL,
)
NUMBER = re.compile(r"(?<![\w.])-?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?")
RELATIVE = 0.05


@dataclass
class Snippet:
    """A block of code of a page."""

    kind: str
    code: str
    expected: str | None
    reason: str | None
    span: tuple[int, int]  # of what is expected, or where it would stand


def snippets(text: str) -> Iterator[Snippet]:
    """Yield the blocks of Python and of commands."""
    for found in BLOCK.finditer(text):
        if found["kind"] in ("python", "console", ""):
            end = found.end()
            span = (end, end) if found["expected"] is None else found.span("expected")
            yield Snippet(found["kind"], found["code"], found["expected"], found["reason"], span)


def run(snippet: Snippet, names: dict[str, Any], where: str) -> str | None:
    """Run a block in the current folder; return what it printed (None: it checks itself)."""
    if snippet.kind == "console":
        return _console(snippet.code)
    if snippet.code.lstrip().startswith(">>>"):
        _doctest(snippet.code, names, where)
        return None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(snippet.code, where, "exec"), names)
    return printed.getvalue()


def _console(code: str) -> str:
    """Return commands and what they print, as the block shows it."""
    lines = []
    commands = [line for line in code.splitlines() if line.startswith("$ ")]
    for line in commands:
        lines.append(line)
        words = shlex.split(line[2:], comments=True)
        if words[0] == "cofem":
            done = subprocess.run(
                [sys.executable, "-m", *words], capture_output=True, text=True, encoding="utf-8",
                env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
            )  # fmt: skip
            if done.returncode:
                raise AssertionError(f"{line}\n{done.stdout}{done.stderr}")
            lines += done.stdout.rstrip().splitlines()
    return "\n".join(lines) + "\n"


def _doctest(code: str, names: dict[str, Any], where: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(code, names, where, where, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    if runner.failures:
        raise AssertionError("".join(said))


def same(printed: str, expected: str) -> bool:
    """Whether two outputs agree, up to rounding and to lines that the page leaves out."""
    got = [line.rstrip() for line in printed.strip().splitlines()]
    for part in re.split(r"(?m)^ *…$", "\n" + expected.strip() + "\n"):
        wanted = [line.rstrip() for line in part.strip("\n").splitlines()]
        if not wanted:
            continue
        at = next((i for i in range(len(got)) if _agree(got[i : i + len(wanted)], wanted)), None)
        if at is None:
            return False
        got = got[at + len(wanted) :]
    return not got or expected.strip().endswith("…")


def _agree(got: list[str], wanted: list[str]) -> bool:
    return len(got) == len(wanted) and all(map(_lines_agree, got, wanted))


def _lines_agree(got: str, wanted: str) -> bool:
    if _words(got) != _words(wanted):
        return False
    pairs = zip(NUMBER.findall(got), NUMBER.findall(wanted), strict=True)
    return all(_close(a, b) for a, b in pairs)


def _words(line: str) -> str:
    """Return a line without its numbers, and without the room that NumPy gives them."""
    return re.sub(r"(?<=\[) ", "", re.sub(r"\s+", " ", NUMBER.sub("#", line)))


def _close(a: str, b: str) -> bool:
    first, second = (float(x.replace(",", "").rstrip(".") or 0) for x in (a, b))
    digits = len(b.split("e")[0].partition(".")[2])
    integers = "." not in a + b and "e" not in a + b
    step = 1.0 if integers else 10.0**-digits
    allowed = max(RELATIVE * abs(second), 1.001 * step if not integers or abs(second) > 20 else 0.0)
    return abs(first - second) <= allowed


def write(path: Path) -> None:
    """Run a page and put what is printed into it."""
    text, names, made = path.read_text("utf-8"), {"__name__": "__main__"}, []
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for snippet in snippets(text):
            if snippet.reason is None:
                printed = run(snippet, names, path.name)
                if snippet.kind == "console" or not printed:
                    continue
                printed = printed.rstrip() + "\n"
                new = f"\n\n```text\n{printed}```"
                made.append((snippet.span, new if snippet.expected is None else printed))
        os.chdir(here)
    for (start, end), printed in reversed(made):
        text = text[:start] + printed + text[end:]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name))
