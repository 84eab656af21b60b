"""Without torch, tests that need it are skipped, and one line says so."""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

TORCH = importlib.util.find_spec("torch") is not None

ROOT = Path(__file__).parent
AT_IMPORT = re.compile(r"^(import|from) torch\b", re.MULTILINE)


def need_torch():
    """Return patterns of the files that cannot even be imported without torch.

    In the library that is every file of a folder in which one imports torch at its top; among
    the tests the programs that do. Other tests ask for torch when they run.
    """
    for part in ("src", "tests"):
        for path in (ROOT / part).rglob("*.py"):
            if AT_IMPORT.search(path.read_text("utf-8")):
                yield str(path.parent / "*" if part == "src" else path)


collect_ignore_glob = [] if TORCH else sorted(set(need_torch()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that finds out on its way that torch is missing."""
    try:
        return (yield)
    except (ModuleNotFoundError, doctest.UnexpectedException) as error:
        cause = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        if not TORCH and isinstance(cause, ModuleNotFoundError) and cause.name == "torch":
            pytest.skip("torch is not installed")
        raise


def pytest_terminal_summary(terminalreporter):
    """Say at the end what was left out, and how to have it."""
    if not TORCH:
        terminalreporter.write_line(
            "torch is not installed: its tests were skipped "
            '(pip install ".[torch-test]", or python3 dev.py test without --no-torch)'
        )
