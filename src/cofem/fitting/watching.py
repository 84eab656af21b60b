"""What surrounds a fit: the progress bar, and Ctrl-C as a KeyboardInterrupt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cofem.learning.recording import Callback


@contextlib.contextmanager
def interrupts_as_themselves() -> Iterator[None]:
    """Raise KeyboardInterrupt where numba has turned a Ctrl-C into a SystemError."""
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            cause = cause.__cause__ or cause.__context__
        raise


@contextlib.contextmanager
def watched(callback: Callback | None, progress: bool) -> Any:
    """Yield a callback that also updates the progress bar, if there is one."""
    if not progress:
        yield callback
        return
    from cofem.progress import FitProgress

    with FitProgress() as bar:

        def both(state: Any) -> object:
            bar.update(state)
            return callback(state) if callback is not None else None

        yield both
