"""What the user sees when something goes wrong: one line, and an exit code."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

# What the library and the operating system raise for bad input. Any other exception is a bug of
# cofem and keeps its traceback.
USER_ERRORS = (ValueError, TypeError, OSError, MemoryError)

BAD_INPUT, INTERRUPTED = 2, 130
INTERRUPTION = "cofem: interrupted"


class OneLineErrors(TyperGroup):
    """The group of commands; it turns bad input into one line and exit code 2."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and leave with its exit code."""
        # Not standalone: mistakes in the arguments are raised, not drawn in a box.
        options["standalone_mode"] = False
        try:
            code = super().main(*args, **options)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except Exception as error:
            if _was_interrupted(error):
                code = INTERRUPTED
            elif isinstance(error, USER_ERRORS) or _is_of_an_extra(error):
                fail(_describe(error))
            elif hasattr(error, "format_message"):  # what every mistake in the arguments has
                fail(f"{error.format_message()} ({_help_of(error)} explains the arguments)")
            else:
                raise
        if code == INTERRUPTED:
            print(INTERRUPTION, file=sys.stderr)
        sys.exit(code if isinstance(code, int) else 0)


def fail(message: str) -> NoReturn:
    """Print one line on the error stream and leave with exit code 2."""
    print(f"cofem: error: {_one_line(message)}", file=sys.stderr)
    sys.exit(BAD_INPUT)


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print what is warned about inside as lines, after the progress bar has gone."""
    from cofem import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                print(f"cofem: warning: {_one_line(message)}", file=sys.stderr)


def _help_of(error: Any) -> str:
    """Return the command that explains what the mistake was made in."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'cofem'} --help"


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether a compiled module, while it was loaded, made this error of a Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_an_extra(error: BaseException) -> bool:
    """Whether an optional package is missing: such a message says how to get it."""
    return isinstance(error, ImportError) and "pip install" in str(error)


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    return str(error) or type(error).__name__


def _one_line(message: str) -> str:
    return " ".join(message.split())
