"""The ``cofem`` command, also as ``python -m cofem``.

Importing takes about a second. Ctrl-C in it ends the command as quietly as later on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    # An exception could come up anywhere in the libraries that are being loaded, and they
    # make other errors of it. Nothing is open or half written yet: leave at once.
    before = signal.signal(signal.SIGINT, _leave)
    from cofem.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _leave(*_: Any) -> NoReturn:
    print("cofem: interrupted", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    main()
