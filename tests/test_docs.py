"""What the documentation shows runs, what it names exists, and the site can be built."""

import doctest
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import cofem

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

specification = importlib.util.spec_from_file_location("_pages", DOCS / "tutorials" / "_pages.py")
pages = importlib.util.module_from_spec(specification)
sys.modules["_pages"] = pages  # dataclasses look their module up
specification.loader.exec_module(pages)

TUTORIALS = pages.tutorials()
PAGES = sorted(DOCS.glob("*.md"))
# Pages whose blocks take minutes; those of the models have tests of their own.
SLOW = {"rivals.md", "models.md", "paper.md"}
# Pieces of programs that torchrun starts, or that need a GPU.
ELSEWHERE = {"distributed.md", "gpu.md"}
# Sections about another library are skipped where that is not installed.
FOREIGN = ("sklearn", "spgl1", "oasis", "sigpy", "mne", "torch", "pylops", "dask", "distributed",
           "zarr", "nibabel", "pywt", "pysindy", "pandas", "xarray", "arviz")  # fmt: skip


# -- tutorials -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(path):
    done = list(pages.run(path))
    assert sum(cell.kind == "code" for cell in done) >= 2
    assert any(cell.printed for cell in done)
    assert pages.title(path.read_text("utf-8"))


def test_a_tutorial_that_fails_fails(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text('"""Bad."""\n# %% [markdown]\n# Text.\n\n# %%\nprint(1)\n\n# %%\nassert 1 > 2\n')
    cells = pages.run(bad)
    assert next(cells).source.strip() == "Text."
    assert next(cells).printed == "1\n"
    with pytest.raises(AssertionError):
        next(cells)


# -- code in pages -------------------------------------------------------------------------


def sections(text):
    """Yield (heading, blocks) of a page; blocks of one section share their names."""
    for part in re.split(r"(?m)^## ", text):
        blocks = re.findall(r"(?m)^```python\n(.*?)^```", part, re.DOTALL)
        if blocks:
            yield part.split("\n", 1)[0], blocks


def cases():
    for path in PAGES:
        if path.name in ELSEWHERE:
            continue
        slow = [pytest.mark.slow] if path.name in SLOW else []
        text = path.read_text("utf-8")
        if any(sections(text)):
            yield pytest.param(path, marks=slow, id=path.stem)


def run_block(block, names, where):
    if block.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block, names, where, where, 0)
        runner = doctest.DocTestRunner(
            optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False
        )
        said = []
        runner.run(test, out=said.append, clear_globs=False)
        names.update(test.globs)
        assert runner.failures == 0, "".join(said)
    else:
        exec(compile(block, where, "exec"), names)


def absent(error):
    return (error.name or "").split(".")[0] in FOREIGN


@pytest.mark.parametrize("path", list(cases()))
def test_blocks_of_pages_run(path, tmp_path, monkeypatch, capsys):
    # Programs that a page starts find the package too.
    found = [str(Path(cofem.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, found)))
    monkeypatch.chdir(tmp_path)
    names, skipped, ran = {"__name__": "__main__"}, [], 0
    for heading, blocks in sections(path.read_text("utf-8")):
        for block in blocks:
            try:
                run_block(block, names, f"{path.name}: {heading}")
                ran += 1
            except ModuleNotFoundError as error:
                if not absent(error):
                    raise
                skipped.append(error.name)
    if not ran:
        pytest.skip(f"not installed: {', '.join(skipped)}")


def test_a_block_that_is_wrong_is_seen():
    with pytest.raises(AssertionError, match="Expected"):
        run_block(">>> 1 + 1\n3\n", {}, "here")
    with pytest.raises(ZeroDivisionError):
        run_block("1 / 0", {}, "here")


# -- the site ------------------------------------------------------------------------------


def nav_entries():
    text = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n", 1)[1]
    return re.findall(r"([\w/]+\.md)\s*$", text, re.MULTILINE)


def test_the_navigation_names_pages_that_exist():
    entries = nav_entries()
    assert len(entries) == len(set(entries)) > 20
    for entry in entries:
        assert (DOCS / entry).exists() or (DOCS / entry).with_suffix(".py").exists(), entry


def test_every_page_is_in_the_navigation():
    there = {path.relative_to(DOCS).as_posix() for path in [*PAGES, *DOCS.glob("reference/*.md")]}
    there |= {f"tutorials/{path.stem}.md" for path in TUTORIALS}
    assert sorted(there - set(nav_entries())) == []


@pytest.mark.parametrize(
    "path", [*PAGES, *DOCS.glob("reference/*.md"), *TUTORIALS], ids=lambda path: path.stem
)
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        if not target.startswith(("http://", "https://", "mailto:", "images/")):
            aim = path.parent / target
            assert aim.exists() or aim.with_suffix(".py").exists(), target


def test_roles_in_docstrings_become_links():
    made = pages.on_page_content(
        '<h2 id="cofem.fit">fit</h2><p>See :func:<code>fit</code> and '
        ":class:<code>~cofem.learning.recording.IterationState</code>.</p>"
    )
    assert 'See <a href="#cofem.fit"><code>fit</code></a> and <autoref optional ' in made
    target = "cofem.learning.recording.IterationState"
    assert f'identifier="{target}"><code>IterationState</code>' in made


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings_handlers.python")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for entry in nav_entries():
        built = (tmp_path / "site" / entry).with_suffix(".html").read_text("utf-8")
        assert "<h1" in built, entry
        assert not re.search(r'<(script|link|img)[^>]*(src|href)="https?://', built), entry
    reference = "".join(
        path.read_text("utf-8") for path in (tmp_path / "site" / "reference").glob("*.html")
    )
    assert not re.search(r":(class|func|meth|mod):<", reference)
    names = (name.rsplit(".", 1)[1] for name, _ in public_objects())
    assert [n for n in names if not re.search(rf'id="[\w.]*\.{n}"', reference)] == []


# -- docstrings ----------------------------------------------------------------------------

PUBLIC = ("cofem", "cofem.operators", "cofem.theory", "cofem.calcium", "cofem.mri", "cofem.many",
          "cofem.sklearn", "cofem.plot", "cofem.simulate")  # fmt: skip


def public_objects():
    for module in PUBLIC:
        try:
            found = importlib.import_module(module)
        except ImportError:  # an extra is missing
            continue
        for name in found.__all__:
            thing = getattr(found, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module}.{name}", thing


def test_everything_public_has_an_example():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = dict(public_objects())
    assert len(named) > 60
    # That the examples run is checked where they stand, by pytest's --doctest-modules.
    assert [name for name, thing in named.items() if ">>> " not in (thing.__doc__ or "")] == []
