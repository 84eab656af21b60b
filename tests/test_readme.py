"""What the README shows works."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(example, names)
    assert capsys.readouterr().out.startswith("Posterior")
    spikes = names["z"] != 0
    assert names["found"][spikes].mean() > 0.8
    assert names["found"][~spikes].mean() < 0.05


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text("utf-8"))
    assert targets
    for target in targets:
        assert target.startswith("https://") or (README.parent / target).exists(), target
