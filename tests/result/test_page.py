"""The posterior as HTML: complete, harmless, and readable in a browser without a network."""

import dataclasses
import inspect
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import cofem
from cofem.cli import app
from cofem.result import page
from cofem.result.assembly import NOT_SETTINGS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Balanced(HTMLParser):
    """Fails on a tag that is not closed."""

    void = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.images, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    return parser


def small(**options):
    random = np.random.default_rng(0)
    phi = random.standard_normal((30, 60))
    z = np.zeros(60)
    z[[4, 40]] = 2.0, -3.0
    y = phi @ z + 0.1 * random.standard_normal(30)
    return cofem.fit(phi, y, noise_precision=100.0, **options), phi, y


POSTERIORS = {
    "plain": lambda: small()[0],
    "not converged": lambda: small(max_iter=3, tol=0)[0],
    "nonnegative": lambda: small(nonnegative=True, max_iter=5, tol=0)[0],
    "amp": lambda: small(method="amp", max_iter=5, tol=0)[0],
    "joint": lambda: cofem.fit(
        small()[1], np.stack([small()[2]] * 2), noise_precision=100.0, max_iter=5, tol=0
    ),
    "complex": lambda: cofem.fit(
        small()[1] + 0j, small()[2] + 0j, noise_precision=100.0, max_iter=5, tol=0
    ),
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_every_kind_of_posterior_has_a_page(name):
    post = POSTERIORS[name]()
    text = page.report(post, "<script>alert(1)</script>.npz")
    found = parsed(text)
    assert "<script" not in text  # names are text, never markup
    # Nothing is fetched: no address in an attribute but the pictures' own bytes.
    assert not re.search(r"(src|href)=\"(?!data:image/png;base64,)", text)
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert len(found.images) == 3
    assert all(image["src"].startswith("data:image/png;base64,") for image in found.images)
    assert all(image["alt"] for image in found.images)
    words = " ".join(found.text)
    assert post.method in words
    assert ("Not converged" in words) == (not post.converged)
    assert "nan" not in words.split()
    assert len(parsed(post._repr_html_()).images) == 1


def test_the_command(tmp_path):
    small()[0].save(tmp_path / "p.npz")
    out = tmp_path / "r.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "p.npz"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    wrong = CliRunner().invoke(app, ["report", str(tmp_path / "p.npz"), "-o", "r.txt"])
    assert wrong.exit_code == 2
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    wrong = CliRunner().invoke(app, ["report", str(tmp_path / "bad.npz"), "-o", str(out)])
    assert wrong.exit_code == 2
    assert "is not a posterior" in wrong.output


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_shows_it_offline(tmp_path):
    out = tmp_path / "r.html"
    out.write_text(page.report(small()[0], "p.npz"), encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-quic", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
            out.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "products with Φ" in done.stdout
    assert done.stdout.count("<img") == 3


def test_settings_are_all_there_and_say_which_prior_ran():
    post = small(prior="ard", max_iter=20, tol=0, seed=7)[0]
    text = "".join(parsed(page.report(post)).text)
    assert f"methodauto; {post.method} ran" in text
    for said in ("priorard", "nonnegativeno", "interceptno", "max_iter20", "tol0", "seed7",
                 "noise_precision100", "groupsnot given"):  # fmt: skip
        assert said in text, said
    assert "initial_precision" in text


def test_every_argument_of_fit_is_a_setting_or_named_as_none(tmp_path):
    post, phi, y = small(groups=np.arange(60) // 2, max_iter=np.int64(20))
    unasked = set(inspect.signature(cofem.fit).parameters) - set(post.settings)
    assert unasked == set(NOT_SETTINGS)
    assert post.settings["groups"] == "array of shape (60,)"
    post.save(tmp_path / "p.npz")
    assert cofem.load(tmp_path / "p.npz").settings == post.settings
    learned = cofem.fit(phi, y, method=cofem.EM())
    text = "".join(parsed(page.report(learned)).text)
    assert "noise_precisionlearned" in text
    assert "methodem" in text
    assert "; em ran" not in text


def test_a_file_that_names_no_settings_has_a_page(tmp_path):
    post = dataclasses.replace(small(prior="ard")[0], settings={})
    text = "".join(parsed(page.report(post)).text)
    assert "priorard" in text
    assert "nonnegativeno" in text


def test_nothing_learned_is_no_empty_picture():
    known = cofem.posterior(np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=1.0)
    found = parsed(page.report(known))
    assert len(found.images) == 2
    assert "How it was reached" not in "".join(found.text)
