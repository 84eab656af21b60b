"""Without torch, what needs it is not collected, and one line says so."""

import importlib.util

TORCH = importlib.util.find_spec("torch") is not None

# Modules that are torch's from their first line on. Other tests ask for it when they run.
NEED_TORCH = [
    "src/cofem/backend/_torch/*",
    "tests/solvers/eager_steps.py",
    "tests/backend/distributed_program.py",
]
collect_ignore_glob = [] if TORCH else NEED_TORCH


def pytest_terminal_summary(terminalreporter):
    """Say at the end what was left out, and how to have it."""
    if not TORCH:
        terminalreporter.write_line(
            "torch is not installed: its tests were skipped "
            '(pip install ".[torch-test]", or python3 dev.py test without --no-torch)'
        )
