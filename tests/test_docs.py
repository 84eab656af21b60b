"""What the documentation shows runs and prints what it says; what it names exists."""

import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import warnings
from pathlib import Path

import pytest

import cofem

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def extension(name):
    """Return a module of docs/_extensions."""
    path = DOCS / "_extensions" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


tutorials, snippets = extension("tutorials"), extension("snippets")

TUTORIALS = tutorials.tutorials()
GUIDE, NOTES = sorted(DOCS.glob("*.md")), sorted(DOCS.glob("notes/*.md"))
PAGES = [ROOT / "README.md", *GUIDE, *NOTES]
ALL_PAGES = [*PAGES, *sorted(DOCS.glob("reference/*.md")), DOCS / "tutorials" / "index.md"]
# Pages whose blocks take minutes; those of the models have tests of their own.
SLOW = {"notes/rivals.md", "notes/models.md"}
# Sections about another library are skipped where that is not installed.
FOREIGN = ("sklearn", "spgl1", "oasis", "sigpy", "mne", "torch", "pylops", "dask", "distributed",
           "zarr", "nibabel", "pywt", "pysindy", "pandas", "xarray", "arviz")  # fmt: skip


def name_of(path):
    return path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix()


# -- tutorials -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run_print_and_draw(path):
    done = list(tutorials.run(path))
    assert sum(cell.kind == "code" for cell in done) >= 2
    assert any(cell.printed for cell in done)
    assert any(cell.figures for cell in done), "a tutorial without a figure"
    assert tutorials.title(path.read_text("utf-8"))
    notebook = json.loads(tutorials.notebook(path, done))
    assert notebook["nbformat"] == 4
    assert sum(cell["cell_type"] == "code" for cell in notebook["cells"]) >= 2


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_show_their_figures_as_scripts(path):
    assert "plt.show()" in path.read_text("utf-8")


def test_a_tutorial_that_fails_fails(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text('"""Bad."""\n# %% [markdown]\n# Text.\n\n# %%\nprint(1)\n\n# %%\nassert 1 > 2\n')
    cells = tutorials.run(bad)
    assert next(cells).source.strip() == "Text."
    assert next(cells).printed == "1\n"
    with pytest.raises(AssertionError):
        next(cells)


# -- code in pages -------------------------------------------------------------------------


def cases():
    for path in PAGES:
        if any(snippet.kind for snippet in snippets.snippets(path.read_text("utf-8"))):
            slow = [pytest.mark.slow] if name_of(path) in SLOW else []
            yield pytest.param(path, marks=slow, id=name_of(path))


@pytest.mark.parametrize("path", list(cases()))
def test_the_code_of_pages_prints_what_they_say(path, tmp_path, monkeypatch):
    # Programs that a page starts find the package too.
    found = [str(Path(cofem.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, found)))
    monkeypatch.chdir(tmp_path)
    names, skipped, ran = {"__name__": "__main__"}, [], 0
    for snippet in snippets.snippets(path.read_text("utf-8")):
        if snippet.reason is not None:
            continue
        try:
            printed = snippets.run(snippet, names, name_of(path))
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in FOREIGN:
                raise
            skipped.append(error.name)
            continue
        ran += 1
        expected = snippet.code if snippet.kind == "console" else snippet.expected
        if printed or expected:
            assert expected is not None, f"the page does not show what is printed:\n{printed}"
            assert snippets.same(printed, expected), f"printed:\n{printed}\nsaid:\n{expected}"
    if skipped and not ran:
        pytest.skip(f"not installed: {', '.join(skipped)}")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_of_code_says_what_it_is(path):
    for snippet in snippets.snippets(path.read_text("utf-8")):
        assert snippet.kind, f"a block without a language: {snippet.code[:60]!r}"
        assert snippet.reason is None or len(snippet.reason) > 10


def test_code_that_is_wrong_is_seen():
    page = "```python\nprint(2)\n```\n\n```text\n3\n```\n"
    (snippet,) = snippets.snippets(page)
    assert not snippets.same(snippets.run(snippet, {}, "here"), snippet.expected)
    with pytest.raises(AssertionError, match="Expected"):
        snippets.run(snippets.Snippet("python", ">>> 1 + 1\n3\n", None, None, (0, 0)), {}, "here")
    with pytest.raises(ZeroDivisionError):
        snippets.run(snippets.Snippet("python", "1 / 0", None, None, (0, 0)), {}, "here")
    failing = snippets.Snippet("console", "$ cofem solve nothing.npy y.npy\n", None, None, (0, 0))
    with pytest.raises(AssertionError, match=r"nothing\.npy"):
        snippets.run(failing, {}, "here")


@pytest.mark.parametrize(
    ("printed", "said", "agree"),
    [
        ("error 4.1 %", "error 4.0 %", True),  # one in the last digit
        ("error 4.4 %", "error 4.0 %", False),
        ("3 found", "5 found", False),
        ("3 found", "3 named", False),
        ("141 false", "140 false", True),
        ("a\nb\nc", "a\n…\nc", True),
        ("a\nb\nc", "a\nc", False),
        ("a\nb", "…\nb", True),
        ("a\nb", "a", False),
        ("[ 3 70] [1. -2.]", "[ 3 70] [ 1. -2.]", True),
    ],
)
def test_outputs_agree_up_to_rounding(printed, said, agree):
    assert snippets.same(printed, said) is agree


# -- the site ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*ALL_PAGES, *TUTORIALS], ids=name_of)
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            aim = path.parent / target
            assert aim.exists() or aim.with_suffix(".py").exists(), target


@pytest.mark.parametrize("path", ALL_PAGES, ids=name_of)
def test_nobody_is_sent_to_an_index_that_does_not_have_us(path):
    text = path.read_text("utf-8")
    assert not re.search(r"(pip|conda|mamba|uv)[^\n`]* (install|add) [\"']?cofem", text)


def test_words_that_readers_search_for_are_there():
    guide = " ".join(path.read_text("utf-8") for path in [ROOT / "README.md", *GUIDE]).lower()
    for word in ("compressed sensing", "regularization", "cite", "expectation maximisation",
                 "phase transition\n:", "lasso", "glossary"):  # fmt: skip
        assert word in guide, word


def test_guide_pages_are_short():
    """A page of the guide is read in a few minutes; what is longer belongs into the notes."""
    words = {path.name: len(path.read_text("utf-8").split()) for path in GUIDE}
    assert {name: n for name, n in words.items() if n > 1300} == {}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; a warning is an error."""
    for needed in ("sphinx", "myst_parser", "pydata_sphinx_theme"):
        pytest.importorskip(needed)
    built = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q",
               "-d", built.with_name("doctrees"), "docs", built]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


# What a reader types, and the page that has to come first.
SEARCHED = {
    "compressed sensing": "glossary",
    "regularization": "glossary",
    "regularisation": "glossary",
    "cite": "cite",
    "expectation maximisation": "glossary",
    "expectation maximization": "glossary",
    "phase transition": "glossary",
    "lasso": "lasso",
    "ARD": "glossary",
    "RVM": "glossary",
    "error bars": "prior",
    "uncertainty": "tutorials/uncertainty",
}


@pytest.mark.slow
def test_the_search_finds_the_right_page_first_when_opened_from_the_disk(site):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    found = {}
    for words in SEARCHED:
        url = f"{(site / 'search.html').as_uri()}?q={urllib.parse.quote(words)}"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu",
                   "--virtual-time-budget=8000", "--dump-dom", url]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        results = done.stdout.partition('id="search-results"')[2]
        first = re.search(r'<a href="([^"#?]+)\.html', results)
        found[words] = first[1] if first else None
    assert found == SEARCHED


@pytest.mark.slow
def test_the_site_needs_no_network_and_leaves_nothing_out(site):
    built = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(built) > 60
    for path, text in built.items():
        assert not re.search(r'<(script|link|img)[^>]*(src|href)="https?://', text), path
    assert (site / "searchindex.js").read_text("utf-8").startswith("Search.setIndex(")
    assert "<math " in built[site / "lasso.html"]
    for path in TUTORIALS:
        assert f"{path.stem}.ipynb" in built[site / "tutorials" / f"{path.stem}.html"]
    reference = "".join(built[path] for path in built if path.parent.name == "reference")
    assert not re.search(r":(class|func|meth|mod):<", reference)
    names = (name.rsplit(".", 1)[1] for name, _ in public_objects())
    assert [n for n in names if not re.search(rf'id="[\w.]*\.{n}"', reference)] == []
    index = built[site / "reference" / "index.html"]
    rows = re.findall(r'<tr class="row-(?:odd|even)">(.*?)</tr>', index, re.DOTALL)
    assert len(rows) > 80
    assert [row for row in rows if re.search(r"<td><p>\s*</p>\s*</td>\s*$", row)] == []


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
