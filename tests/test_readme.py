"""What the README shows is true. Its code runs in test_docs.py, with what it prints compared."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_finds_what_is_there(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(example, names)
    capsys.readouterr()
    spikes = names["z"] != 0
    assert names["found"][spikes].mean() > 0.8
    assert names["found"][~spikes].mean() < 0.01


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text("utf-8"))
    assert len(targets) > 20
    for target in targets:
        assert target.startswith("https://") or (README.parent / target).exists(), target
