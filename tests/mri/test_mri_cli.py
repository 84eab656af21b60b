"""``cofem mri`` and the paper's table, end to end on small phantoms."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from cofem import mri
from cofem.cli.mri import mri as command


@pytest.fixture
def app():
    app = typer.Typer()
    app.command()(command)
    return app


@pytest.fixture
def files(tmp_path):
    truth = mri.phantom((48, 48), n_contrasts=2)
    mask = mri.power_rule_mask(truth.shape, 2, 3, seed=0)
    np.savez(tmp_path / "in.npz", kspace=mri.to_kspace(truth) * mask, mask=mask)
    np.save(tmp_path / "truth.npy", truth)
    return tmp_path, truth


def test_it_writes_images_and_a_figure(app, files):
    folder, truth = files
    out, figure = folder / "out.npz", folder / "f.png"
    result = CliRunner().invoke(
        app,
        [
            str(folder / "in.npz"), "-o", str(out), "--real", "--json",
            "--figure", str(figure), "--truth", str(folder / "truth.npy"),
        ],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    with np.load(out) as found:
        assert {"image", "std", "precision", "noise_std", "about"} <= set(found.files)
        error = 100 * mri.nrmse(found["image"], truth)
        assert found["std"].shape == truth.shape
    assert facts["nrmse_percent"] == pytest.approx(error)
    assert facts["shape"] == [2, 48, 48]
    assert facts["model"] == "image"
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_it_writes_nifti(app, files):
    nibabel = pytest.importorskip("nibabel")
    folder, truth = files
    result = CliRunner().invoke(
        app, [str(folder / "in.npz"), "-o", str(folder / "out.nii.gz"), "--real"]
    )
    assert result.exit_code == 0, result.output
    image = np.asarray(nibabel.load(folder / "out.nii.gz").dataobj)
    std = np.asarray(nibabel.load(folder / "out_std.nii.gz").dataobj)
    assert image.shape == std.shape == (48, 48, 1, 2)
    assert mri.nrmse(np.moveaxis(image[:, :, 0], -1, 0), truth) < 0.1
    assert (std > 0).all()


def test_the_page_shows_its_pixels_in_a_browser(app, files):
    folder, _ = files
    arguments = [str(folder / "in.npz"), "-o", str(folder / "out.npz"), "--real"]
    result = CliRunner().invoke(app, [*arguments, "--report", str(folder / "page.html")])
    assert result.exit_code == 0, result.output
    assert "2 contrasts, 48 × 48" in result.output
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert "http" not in text  # it needs no network
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium to look at the page with")
    dom = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
         f"{(folder / 'page.html').as_uri()}#20,24"],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert 'data-ready="yes"' in dom
    with np.load(folder / "out.npz") as found:
        value, std = abs(found["image"][0, 20, 24]), found["std"][0, 20, 24]
    shown = re.search(r"Row 20, column 24: (\S+) ± (\S+) \(95 %", dom)
    assert float(shown[1]) == pytest.approx(value, rel=6e-3)
    assert float(shown[2]) == pytest.approx(std, rel=6e-2)
    for name in ("image", "std", "edges"):  # every map has a colour bar with numbers and a unit
        assert re.search(rf'id="{name}-high">[0-9.e+-]+<', dom)
    assert dom.count("units of the data</span>") == 3
    for name in ("image", "std", "edges"):  # the pixel is marked on every map, in its middle
        mark = re.search(rf'id="{name}-mark" style="left: ([0-9.]+)%; top: ([0-9.]+)%;"', dom)
        assert [float(x) for x in mark.groups()] == pytest.approx(
            [100 * 24.5 / 48, 100 * 20.5 / 48]
        )


def test_two_sets_are_written_apart_and_shown_together(app, tmp_path):
    """Three coils in a row see an object whose right end lies over its left one."""
    where = np.linspace(-1, 1, 64)[None, :]
    wide = np.pad(mri.phantom((48, 48), n_contrasts=1)[0], ((0, 0), (8, 8)))
    seen = [np.exp(-((where - at) ** 2)) * wide for at in (-1, 0, 1)]
    coils = np.stack([x[:, :48] + np.pad(x[:, 48:], ((0, 0), (0, 32))) for x in seen])
    mask = np.zeros((48, 48), dtype=bool)
    mask[:, ::2] = mask[:, 14:34] = True
    noise = np.random.default_rng(0).standard_normal((2, *coils.shape))
    kspace = mask * (mri.to_kspace(coils) + 0.01 * (noise[0] + 1j * noise[1]))
    np.savez(tmp_path / "in.npz", kspace=kspace)
    arguments = [str(tmp_path / "in.npz"), "--coils", "--sets", "2"]
    found = {}
    for output in ("out.npz", "out.cfl"):
        page = ["--report", str(tmp_path / "page.html")] if output == "out.cfl" else []
        result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / output), *page])
        assert result.exit_code == 0, result.output
        found[output] = tmp_path / output
    apart = np.load(found["out.npz"])["image"]
    assert apart.shape == (1, 2, 48, 48)
    one = np.fromfile(found["out.cfl"], dtype=np.complex64).reshape(48, 48, order="F")
    np.testing.assert_allclose(one, np.linalg.norm(apart[0], axis=0), rtol=1e-5)
    # A single image through two sets of maps is no total variation's.
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "zero-filled" in text
    assert "total variation, λ" not in text


def test_a_truth_of_another_shape_is_refused_before_the_work(app, files):
    folder, truth = files
    np.save(folder / "one.npy", truth[:1])
    arguments = [str(folder / "in.npz"), "-o", str(folder / "out.npz"), "--real"]
    result = CliRunner().invoke(app, [*arguments, "--truth", str(folder / "one.npy")])
    assert "(1, 48, 48) came, (2, 48, 48) is expected" in str(result.exception)
    assert not (folder / "out.npz").exists()


def test_numbers_in_a_row_are_no_kspace(app, tmp_path):
    np.savez(tmp_path / "in.npz", a=np.zeros(3))
    arguments = [str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    result = CliRunner().invoke(app, arguments)
    assert "the k-space has shape (3,)" in str(result.exception)


def test_two_sets_need_coils(app, files):
    folder, _ = files
    arguments = [str(folder / "in.npz"), "-o", str(folder / "out.npz"), "--sets", "2"]
    result = CliRunner().invoke(app, arguments)
    assert "INPUT has one coil" in str(result.exception)
    assert not (folder / "out.npz").exists()


def test_bad_outputs_are_refused_before_the_work(app, files):
    folder, _ = files
    for output, message in (("out.jpg", "does not end in"), ("in.npz", "overwrite the input")):
        result = CliRunner().invoke(app, [str(folder / "in.npz"), "-o", str(folder / output)])
        assert result.exit_code != 0
        assert message in str(result.exception)


def atlas():
    root = os.environ.get("COFEM_DATA")
    folder = Path(root) if root else Path(__file__).resolve().parents[3] / "shared" / "data"
    path = folder / "mri" / "sri24_pd_t2_t1_200x200.npz"
    if not path.is_file():
        pytest.skip("the atlas is not here")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mask", "sigma", "joint_tv"),
    [
        ("masks_author_seed1111_49lines", 0.0, 0.0248),
        ("masks_author_seed1111_49lines", 0.01, 0.0331),
        ("masks_author_seed1111_49lines", 0.03, 0.0479),
        ("masks_r4_seed0_50lines", 0.0, 0.0233),
        ("masks_r4_seed1_50lines", 0.0, 0.0226),
    ],
)
def test_the_atlas_is_better_than_joint_tv_at_its_best(mask, sigma, joint_tv):
    with np.load(atlas()) as arrays:
        truth, sampled = arrays["images"], arrays[mask]
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(truth.shape) + 1j * rng.standard_normal(truth.shape)
    y = np.where(sampled, np.fft.fft2(truth, norm="ortho") + noise * sigma / 2**0.5, 0)
    found = mri.reconstruct(y, sampled, real=True, centered=False)
    assert mri.nrmse(found.image, truth) < 0.8 * joint_tv
    inside = np.any(truth > 0, axis=0)
    covered = (np.abs(found.image - truth) < 1.96 * found.std)[:, inside].mean()
    assert 0.88 < covered < 0.98


@pytest.mark.slow
def test_the_papers_table_quickly(tmp_path):
    from cofem.paper.mri import run

    lines = []
    page = run(atlas(), tmp_path, quick=True, report=lines.append)
    assert "SBL, image" in page.read_text(encoding="utf-8")
    assert (tmp_path / "mri_fig5.png").exists()
    assert (tmp_path / "mri_table2.csv").exists()
    assert len(lines) == 4
