"""Fits in threads beside each other, the version, and the wheel in an empty environment."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

import cofem
from cofem import backend, simulate

ROOT = Path(__file__).parents[1]

# -- fits beside each other --------------------------------------------------------------------


def answers(job):
    make, options = job
    problem = make()
    post = cofem.fit(problem.phi, problem.y, max_iter=15, tol=0, **options)
    return post.mean, post.variance, post.noise_precision, post.log_evidence


def calcium_like():
    problem = simulate.convolution(D=400, seed=3)
    return simulate.Problem(
        "ar", cofem.operators.Autoregressive((0.96,), 400), problem.y, problem.z, 0.01
    )


JOBS = [
    (lambda: simulate.dct(D=600, seed=0), {"method": "cofem"}),
    (lambda: simulate.dct(D=600, seed=1), {"method": "cofem", "noise_precision": 1e4}),
    (lambda: simulate.gaussian(D=200, seed=2), {"method": "woodbury", "noise_precision": 1e4}),
    (calcium_like, {"method": "banded", "noise_precision": 1e4, "nonnegative": True}),
    (lambda: simulate.gaussian(D=200, seed=4), {"method": "em", "noise_precision": 1e4}),
]


def test_fits_in_threads_give_the_answers_they_give_alone():
    alone = [answers(job) for job in JOBS]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(answers, JOBS * 3))
    for number, found in enumerate(together):
        for mine, expected in zip(found, alone[number % len(JOBS)], strict=True):
            np.testing.assert_array_equal(mine, expected)


def blas_threads():
    return {p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"}


def test_overlapping_fits_give_the_blas_its_threads_back():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = backend.few_blas_threads(100), backend.few_blas_threads(100)
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}, "the second fit still runs"
        second.__exit__(None, None, None)
        assert blas_threads() == before


# -- the version -------------------------------------------------------------------------------


def copy_of_the_source(where, *, whole=False):
    """Copy what a build needs, without the history; the rest of the project if it is whole."""
    skip = shutil.ignore_patterns(
        ".git", ".venv", "site", "build", "dist", "__pycache__", ".*_cache", ".hypothesis"
    )
    if whole:
        return Path(shutil.copytree(ROOT, where, ignore=skip))
    shutil.copytree(ROOT / "src", where / "src", ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, where)
    return where


def git(where, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *author, *arguments], cwd=where, check=True, capture_output=True)


def hatch(where, *arguments):
    # Neither another project's history nor a version from outside.
    clean = {key: value for key, value in os.environ.items() if "PRETEND_VERSION" not in key}
    clean["GIT_CEILING_DIRECTORIES"] = str(where.parent)
    command = [sys.executable, "-m", "hatchling", *arguments]
    done = subprocess.run(command, cwd=where, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fallback():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return project["tool"]["hatch"]["version"]["fallback-version"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_version_is_that_of_the_tag(tmp_path):
    pytest.importorskip("hatch_vcs")
    source = copy_of_the_source(tmp_path / "source")
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "first")
    assert re.match(r"0\.1(\.0)?\.dev1\+g", hatch(source, "version")), "no tag yet"
    git(source, "tag", "v9.9.9")
    assert hatch(source, "version") == "9.9.9"

    hatch(source, "build", "-d", tmp_path / "dist")  # sdist and wheel
    with zipfile.ZipFile(tmp_path / "dist" / "cofem-9.9.9-py3-none-any.whl") as wheel:
        assert "\nVersion: 9.9.9\n" in wheel.read("cofem-9.9.9.dist-info/METADATA").decode("utf-8")
        assert "cofem = cofem.__main__:main" in wheel.read(
            "cofem-9.9.9.dist-info/entry_points.txt"
        ).decode("utf-8")
    with tarfile.open(tmp_path / "dist" / "cofem-9.9.9.tar.gz") as sdist:
        sdist.extractall(tmp_path, filter="data")
    assert hatch(tmp_path / "cofem-9.9.9", "version") == "9.9.9", "an sdist has no tags"

    (source / "README.md").write_text("another")
    git(source, "commit", "-q", "-a", "-m", "second")
    assert hatch(source, "version").startswith("9.9.10.dev1+g")


def test_a_source_tree_without_a_history_has_a_version(tmp_path):
    pytest.importorskip("hatch_vcs")
    assert hatch(copy_of_the_source(tmp_path / "source"), "version") == fallback()


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert cofem._version() == "0+unknown"


def test_changelog_citation_and_fallback_speak_of_one_version():
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[1]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
    assert newest == cited == fallback().removesuffix(".dev0")


# -- the wheel ---------------------------------------------------------------------------------


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    jinja2, yaml = pytest.importorskip("jinja2"), pytest.importorskip("yaml")
    text = (ROOT / "conda" / "meta.yaml").read_text("utf-8")
    recipe = yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    about = project["project"]
    named = [need.replace(" ", "") for need in recipe["requirements"]["run"]]
    assert named.pop(0) == "python" + about["requires-python"]
    # conda-forge's matplotlib without its windows is called matplotlib-base.
    assert sorted(need.replace("-base>", ">") for need in named) == sorted(about["dependencies"])
    built_with = {need.replace(" ", "") for need in recipe["requirements"]["host"]}
    assert built_with >= set(project["build-system"]["requires"])
    scripts = [f"{name} = {where}" for name, where in about["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
    assert recipe["package"]["version"] == cited


@pytest.mark.slow
def test_wheel_and_sdist_install_into_an_empty_environment(tmp_path):
    pytest.importorskip("build")
    source = copy_of_the_source(tmp_path / "source", whole=True)
    build = [sys.executable, "-m", "build", "--outdir", tmp_path / "dist", source]
    subprocess.run(build, check=True, capture_output=True)
    made = sorted(path.suffix for path in (tmp_path / "dist").iterdir())
    assert made == [".gz", ".whl"]
    venv.create(tmp_path / "empty", with_pip=True)
    scripts = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    pip = [scripts / "python", "-m", "pip", "-qq", "install", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    small = (
        "import numpy as np, cofem, pathlib; "
        "assert 'empty' in cofem.__file__, cofem.__file__; "
        f"assert cofem.__version__ == '{fallback()}', cofem.__version__; "
        "post = cofem.fit(np.eye(5), np.arange(5.0), noise_precision=1e4); "
        "assert post.converged and pathlib.Path(cofem.__file__).with_name('py.typed').exists()"
    )
    demo = [scripts / "cofem", "demo", "--size", "2048", "--figure", "demo.png"]
    for command in (demo, [scripts / "python", "-c", small]):
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo.png").exists()
