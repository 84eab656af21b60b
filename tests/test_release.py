"""Fits in threads beside each other, and the wheel in an empty environment."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import venv
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


# -- the wheel ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_wheel_and_sdist_install_into_an_empty_environment(tmp_path):
    pytest.importorskip("build")
    source = tmp_path / "source"
    shutil.copytree(
        ROOT, source,
        ignore=shutil.ignore_patterns(".git", ".venv", "site", "__pycache__", ".*_cache"),
    )  # fmt: skip
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
        "post = cofem.fit(np.eye(5), np.arange(5.0), noise_precision=1e4); "
        "assert post.converged and pathlib.Path(cofem.__file__).with_name('py.typed').exists()"
    )
    for command in ([scripts / "cofem", "demo", "--help"], [scripts / "python", "-c", small]):
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
