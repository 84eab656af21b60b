"""Without torch, tests that need it are skipped, and one line says so."""

import doctest
import importlib.util

import pytest

TORCH = importlib.util.find_spec("torch") is not None

# Modules that are torch's from their first line on. Other tests ask for it when they run.
NEED_TORCH = [
    "src/cofem/backend/_torch/*",
    "tests/solvers/eager_steps.py",
    "tests/backend/distributed_program.py",
]
collect_ignore_glob = [] if TORCH else NEED_TORCH


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
