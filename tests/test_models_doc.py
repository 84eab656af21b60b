"""What docs/notes/models.md shows works, block by block, and its pictures are there."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "notes" / "models.md"
SECTIONS = re.split(r"^(?=## )", PAGE.read_text("utf-8"), flags=re.MULTILINE)
TITLES = [section.splitlines()[0].lstrip("# ") for section in SECTIONS]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("section", SECTIONS[1:], ids=TITLES[1:])
def test_the_examples_run(section):
    test = doctest.DocTestParser().get_doctest(section, {}, section[:30], str(PAGE), 0)
    assert test.examples, "a section without an example"
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    told = []
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text("utf-8"))
    assert len([target for target in targets if target.endswith(".png")]) == 8
    for target in targets:
        assert (PAGE.parent / target).exists(), target


def test_the_pictures_are_drawn_by_the_benchmark():
    script = (PAGE.parents[2] / "benchmarks" / "models.py").read_text("utf-8")
    for name in re.findall(r"images/models_(\w+)\.png", PAGE.read_text("utf-8")):
        assert f'"{name}"' in script, name
