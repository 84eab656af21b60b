"""Pictures: what they show, and that they leave the user's matplotlib alone."""

import sys
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import cofem
from cofem import plot, simulate
from cofem.cli.figure import save


@pytest.fixture(scope="module")
def problem():
    return simulate.dct(600, 0)


@pytest.fixture(scope="module")
def post(problem):
    return cofem.fit(problem.phi, problem.y, noise_precision=1e4, method="cofem")


def fake(mean, std):
    """Return what the pictures read of a posterior."""
    return SimpleNamespace(
        mean=mean,
        std=std,
        interval=lambda level: (mean - 2 * std, mean + 2 * std),
        support=lambda level: abs(mean) > 2 * std,
    )


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_posterior_shows_what_matters_and_says_so(problem, post):
    ax = plot.posterior(post, problem.z, ax=Figure().subplots())
    shown = np.sum(post.support() | (problem.z != 0))
    title = ax.get_title(loc="left")
    assert title == f"Posterior: the {shown} of 600 coordinates in the support or truly not zero"
    assert ax.get_xlabel() == "coordinate"
    assert texts(ax) == ["truth (where not zero)", "estimate, 95% interval"]
    low, high = ax.get_xlim()
    assert low < 0 < 599 < high  # all places, so that gaps are seen as such


def test_a_support_that_is_spread_out_is_shown_whole():
    mean, std = np.zeros(5000), np.full(5000, 0.1)
    mean[[10, 2000, 4990]] = 1.0, -2.0, 3.0
    ax = plot.posterior(fake(mean, std), ax=Figure().subplots())
    assert ax.get_title(loc="left") == "Posterior: the 3 of 5,000 coordinates in the support"
    (points,) = (line for line in ax.lines if line.get_marker() == ".")
    assert points.get_xdata().tolist() == [10, 2000, 4990]
    assert points.get_ydata().tolist() == [1.0, -2.0, 3.0]


def test_the_window_is_where_the_support_is():
    mean, std = np.zeros(5000), np.full(5000, 0.1)
    mean[3000:3060], mean[::40] = 1.0, 1.0  # more than can be read at once
    ax = plot.posterior(fake(mean, std), ax=Figure().subplots())
    low, high = ax.get_xlim()
    assert low < 3000 < 3059 < high
    assert 115 < high - low < 130
    ax = plot.posterior(fake(mean, std), ax=Figure().subplots(), window=(10, 20))
    assert ax.get_title(loc="left") == "Posterior: coordinates 10 to 19 of 5,000"
    with pytest.raises(ValueError, match="window must lie in"):
        plot.posterior(fake(mean, std), ax=Figure().subplots(), window=(20, 10))


def test_a_nonnegative_posterior_is_shown_where_it_is_not_zero():
    # Every interval of a rectified posterior lies above zero: the support decides.
    found = simulate.convolution(500, 0, sparsity=0.01)
    found.z[:] = 0.0
    found.z[[300, 310, 320]] = 3.0
    post = cofem.fit(found.phi, found.phi.forward(found.z), noise_precision=1e4, nonnegative=True)
    low, high = plot.posterior(post, ax=Figure().subplots()).get_xlim()
    assert low < 300 < 320 < high


def test_small_problems_are_shown_whole():
    ax = plot.posterior(fake(np.arange(5.0), np.ones(5)), ax=Figure().subplots())
    assert ax.get_title(loc="left") == "Posterior: all 5 coordinates"
    assert texts(ax) == ["estimate, 95% interval"]


def test_joint_tasks_and_complex_posteriors_are_shown():
    tasks = fake(np.ones((2, 5)), np.ones((2, 5)))
    assert plot.posterior(tasks, np.ones((2, 5)), ax=Figure().subplots(), task=1) is not None
    complex_one = fake(np.full(5, 3j), np.ones(5))
    ax = plot.posterior(complex_one, np.full(5, 3j), ax=Figure().subplots())
    assert ax.get_ylabel() == "|z|"


def test_errors_marks_what_misses_the_truth():
    truth, std = np.zeros(50), np.ones(50)
    mean = np.where(np.arange(50) == 7, 5.0, 0.5)
    ax = plot.errors(fake(mean, std), truth, ax=Figure().subplots())
    assert texts(ax) == ["95% interval covers the truth", "misses it"]
    with pytest.raises(ValueError, match="truth has shape"):
        plot.errors(fake(mean, std), np.zeros(3), ax=Figure().subplots())


def test_history_has_a_log_axis_and_a_bar_for_every_iteration(post):
    top, bottom = plot.history(post, axes=Figure().subplots(2))
    assert top.get_yscale() == "log"
    assert len(bottom.patches) == len(post.history["iteration"])
    with pytest.raises(ValueError, match="two matplotlib axes"):
        plot.history(post, axes=[Figure().subplots()])


def test_an_exact_fit_has_no_empty_panel(problem):
    exact = cofem.fit(problem.phi, problem.y, noise_precision=1e4, method="woodbury", max_iter=30)
    top, bottom = plot.history(exact, axes=Figure().subplots(2))
    assert bottom.get_ylabel() == "seconds since the start"
    (line,) = bottom.lines
    assert line.get_ydata().tolist() == exact.history["seconds"]
    assert len(top.lines[0].get_ydata()) > 0


def test_given_axes_touch_neither_pyplot_nor_the_backend(problem, post, tmp_path):
    figures = []
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        figures = pyplot.get_fignums()
    before = dict(mpl.rcParams)
    figure = Figure()
    plot.posterior(post, problem.z, ax=figure.subplots())
    save(figure, tmp_path / "p.png")
    assert dict(mpl.rcParams) == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert figures == ([] if pyplot is None else pyplot.get_fignums())


def test_without_axes_a_pyplot_figure_is_made(problem, post):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    axes = [plot.posterior(post), plot.errors(post, problem.z), *plot.history(post)]
    assert {ax.figure for ax in axes} == {pyplot.figure(n) for n in pyplot.get_fignums()}
    pyplot.close("all")


@pytest.mark.parametrize("ending", ["png", "pdf", "svg", "PNG"])
def test_save_writes_what_the_ending_says(tmp_path, ending):
    save(Figure(), tmp_path / f"figure.{ending}")
    head = (tmp_path / f"figure.{ending}").read_bytes()[:5]
    assert head in (b"\x89PNG\r", b"%PDF-", b"<?xml")


def test_save_refuses_other_endings_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"figure: .* does not end in one of"):
        save(Figure(), tmp_path / "figure.docx")
    broken = Figure()
    broken.text(0.5, 0.5, "$\\undefined$")
    with pytest.raises(ValueError, match="undefined"):
        save(broken, tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []
