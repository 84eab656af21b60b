"""The progress bar: what it says on a terminal, and its silence elsewhere."""

import io
from types import SimpleNamespace

from rich.console import Console

from cofem.progress import FitProgress


def state(iteration, change=0.25):
    return SimpleNamespace(iteration=iteration, max_iter=40, change=change, cg_steps=17)


def drawn(*states, terminal=True):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    with FitProgress(console) as bar:
        for item in states:
            bar.update(item)
    return stream.getvalue()


def test_it_shows_where_the_fit_is():
    text = drawn(state(1, change=float("inf")), state(2))
    assert "2/40" in text
    assert "change 2.5e-01" in text
    assert "CG steps 17" in text


def test_a_second_fit_starts_the_bar_anew():
    assert "1/40" in drawn(state(1), state(2), state(1)).rsplit("2/40", 1)[-1]


def test_it_is_silent_without_a_terminal(capsys):
    assert drawn(state(1), terminal=False) == ""
    with FitProgress() as bar:
        bar.update(state(1))
    assert capsys.readouterr() == ("", "")
