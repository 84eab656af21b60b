"""Many cells at once find what one cell at a time finds: the compiled recursions are the oracle."""

import numpy as np
import pytest

from cofem import backend
from cofem.calcium import deconvolve, simulate
from cofem.calcium.arguments import settings_of
from cofem.calcium.at_once import fitting, levels, passes
from cofem.calcium.at_once.tables import build_tables, first_sources
from cofem.calcium.jumps import fitting as one_cell
from cofem.calcium.jumps import passes as one_pass
from cofem.calcium.jumps import unsure
from cofem.calcium.jumps.states import Constants, build_states
from cofem.calcium.traces import downward_noise, maximin_baseline, white_noise

# With a walk and without, with a rise and without, bent up and
# down, with a short decay and a small jump.
CONSTANTS = [
    Constants(0.7, 0.03, 0.1, 1.0, 0.5, 0.5),
    Constants(0.3, 0.0, 0.0, 2.0, 0.0, 0.0),
    Constants(1.4, 0.1, 0.3, 0.2, 1.0, -1.0, 2.0),
    Constants(0.12, 0.02, 0.2, 5.0, 0.25, 1.0),
    Constants(0.5, 0.03, -0.3, 5.0, 0.5, 0.0),
]
# Weights of the states are kept in single precision for the way back, by both.
CLOSE = 3e-7


def taken_to(kind):
    if kind == "numpy":
        return lambda x: x
    torch = pytest.importorskip("torch")
    if kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return lambda x: torch.asarray(x, device="cuda" if kind == "cuda" else "cpu")


def on_host(x):
    return x.cpu().numpy() if hasattr(x, "cpu") else np.asarray(x)


KINDS = ["numpy", "torch", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(scope="module")
def traces():
    dff, _ = simulate(len(CONSTANTS), 90, framerate=30.0, noise_std=0.05, seed=1)
    seen = np.ones(dff.shape, bool)
    seen[1, 40:50] = False
    seen[2, :3] = False
    return dff / 0.05, seen


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_and_posterior_are_those_of_one_cell(kind, traces):
    y, seen = traces
    there = taken_to(kind)
    tables = build_tables(CONSTANTS, 30.0, there(y))
    evidence = on_host(passes.log_evidence(tables, there(y), there(seen)))
    found = passes.posterior(tables, there(y), there(seen))
    for i, constants in enumerate(CONSTANTS):
        states = build_states(constants, 30.0)
        wanted = one_pass.posterior(states, y[i] - constants.level, seen[i])
        assert evidence[i] == pytest.approx(wanted.log_evidence, abs=1e-9)
        for name in ("number", "spread", "active", "calcium", "calcium_spread"):
            mine = on_host(getattr(found, name))[i]
            np.testing.assert_allclose(mine, getattr(wanted, name), atol=CLOSE, err_msg=name)


def test_first_sources_are_where_searches_find_them():
    target = build_tables(CONSTANTS, 30.0, np.zeros(1)).target
    found = first_sources(target)
    for cell, option in np.ndindex(target.shape[:2]):
        wanted = np.searchsorted(target[cell, option], np.arange(target.shape[2] + 1))
        np.testing.assert_array_equal(found[cell, option], wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "rate", "window"), [(400, 30.0, 5.0), (97, 100.0, 60.0)])
def test_baseline_and_noise_are_those_of_one_trace(kind, n, rate, window):
    dff, _ = simulate(3, n, framerate=rate, seed=2)
    there = taken_to(kind)(dff)
    baselines = on_host(levels.maximin_baselines(there, rate, window))
    noise = on_host(levels.noise_levels(there, rate, 0.05))
    for row, baseline, level in zip(dff, baselines, noise, strict=True):
        np.testing.assert_allclose(baseline, maximin_baseline(row, rate, window), atol=1e-12)
        wanted = max(white_noise(row, rate), downward_noise(row, rate, 0.05))
        assert level == pytest.approx(wanted, rel=1e-10)


def test_quantiles_are_numpys():
    x = np.random.default_rng(0).normal(size=(4, 11))
    number = np.array([11, 7, 2, 1])
    filled = np.where(np.arange(11) < number[:, None], x, np.inf)
    for share in (0.25, 0.5, 0.995):
        wanted = [np.quantile(row[:n], share) for row, n in zip(x, number, strict=True)]
        np.testing.assert_allclose(levels.quantile(filled, number, share), wanted, rtol=1e-12)


def both(dff, settings, kind, given=None, batch=None):
    """Compare every number of every cell; return how many cells were fitted together."""
    there = taken_to(kind)(dff)
    fitted = 0
    for which, frames, cells in fitting.fit_together(there, settings, given, batch):
        for row, i in enumerate(which):
            level = None if given is None else given[i]
            wanted = one_cell.fit_jumps(np.asarray(dff[i], dtype=np.float64), settings, level)
            for name, array in frames.items():
                largest = np.nanmax(np.abs(getattr(wanted, name)), initial=1.0)
                np.testing.assert_allclose(
                    on_host(array)[row], getattr(wanted, name), atol=CLOSE * largest, err_msg=name
                )
            for name, values in cells.items():
                if name == "message":
                    assert values[row] == wanted.message
                else:
                    assert float(values[row]) == pytest.approx(
                        float(getattr(wanted, name)), rel=1e-6, abs=1e-9
                    ), name
            fitted += 1
    return fitted


QUICK = {"tau_d": 0.7, "tau_r": 0.05, "response": "linear"}  # constants that are not searched
CASES = {
    "all searched": (30.0, {}),
    "binned": (100.0, {**QUICK, "threshold": 0.3}),
    "logarithm": (30.0, {**QUICK, "response": "log"}),
    "no rise, no baseline": (7.5, {**QUICK, "tau_r": 0.0, "baseline": None}),
    "named, noise told": (30.0, {"indicator": "GCaMP6s", "sn": 0.05, **QUICK}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_cells_together_are_cells_one_by_one(kind, case):
    rate, options = CASES[case]
    dff, _ = simulate(2, 110 if rate < 50 else 330, framerate=rate, noise_std=0.05, seed=4)
    settings = settings_of(rate, **options)
    assert both(dff, settings, kind) == 2


@pytest.mark.parametrize("told", [unsure.TOLD, -np.inf])
def test_second_views_are_alike(told, monkeypatch):
    """So much noise that spikes are lost in two cells, and little in the third.

    The second view has a share in their ``spikes``, or is the answer.
    """
    monkeypatch.setattr(unsure, "TOLD", told)
    monkeypatch.setattr(unsure, "IN_FRAMES", 200)  # so that short traces tell as much
    dff, _ = simulate(3, 400, framerate=60.0, rate=5.0, noise_std=0.6, seed=8)
    dff[2] = simulate(1, 400, framerate=60.0, noise_std=0.02, seed=8)[0][0]
    settings = settings_of(60.0, **QUICK)
    assert both(dff, settings, "numpy") == 3
    (_, frames, cells), *_ = fitting.fit_together(dff, settings, None, 3)
    assert np.array_equal(frames["spikes"][0], frames["mean"][0]) == (told < 0)
    assert np.all(cells["size_spread"][:2] > 1)
    assert cells["size_spread"][2] == 0.7
    assert "stand clear of the noise" in cells["message"][0]


def test_cells_that_cannot_be_fitted_are_in_no_batch():
    dff, _ = simulate(5, 90, framerate=30.0, noise_std=0.05, seed=5)
    dff[0, 30:40] = np.nan  # a gap
    dff[2] = 1.0  # constant
    dff[4, 10:] = np.nan  # too little
    settings = settings_of(30.0, **QUICK)
    fitted = [i for which, *_ in fitting.fit_together(dff, settings, None, 2) for i in which]
    assert fitted == [0, 1, 3]
    assert both(dff, settings, "numpy", batch=2) == 3


def test_doubtful_traces_are_named_alike():
    random = np.random.default_rng(7)
    dff = 0.05 * random.standard_normal((3, 300))
    dff[0, 150] += 9.0  # one frame alone
    dff[1] = np.convolve(random.standard_normal(303), np.ones(4) / 4, "valid")  # smoothed
    dff[2] = 0.3 * np.cumsum(random.standard_normal(300)) * 0.1  # a walk
    settings = settings_of(30.0, **QUICK)
    assert both(dff, settings, "numpy") == 3
    said = [text for *_, cells in fitting.fit_together(dff, settings, None, 3)
            for text in cells["message"]]  # fmt: skip
    assert "1 frame stands alone" in said[0]
    assert "not white" in said[1]


def test_given_baselines_and_pieces(monkeypatch):
    dff, _ = simulate(2, 120, framerate=30.0, noise_std=0.05, seed=6)
    given = np.linspace(0.0, 0.1, dff.size).reshape(dff.shape)
    monkeypatch.setattr(one_cell, "STRETCH", 40)
    monkeypatch.setattr(one_cell, "MARGIN_SECONDS", 0.5)
    assert both(dff, settings_of(30.0, baseline=given, **QUICK), "numpy", given=given) == 2


def test_searches_of_different_length_are_all_answered():
    def asking(times):
        total = 0.0
        for k in range(times):
            total += yield (times, k)
        return total

    def ask(cells, constants):
        return np.array([100.0 * times + k for times, k in constants])

    found = fitting.answered([asking(n) for n in (3, 1, 2, 5, 1)], ask)
    assert found == [sum(100 * n + k for k in range(n)) for n in (3, 1, 2, 5, 1)]


def test_a_full_device_is_a_clear_error(monkeypatch):
    torch = pytest.importorskip("torch")
    dff = torch.asarray(simulate(2, 60, framerate=30.0, seed=0)[0])

    def full(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr("cofem.calcium.deconvolution.backend", Pretended())
    monkeypatch.setattr(fitting, "prepared", full)
    with pytest.raises(MemoryError, match=r"no room for 2 cells of 60 frames; pass fewer"):
        deconvolve(dff, 30.0)


def test_cells_of_a_device_and_those_left_over_make_one_result(monkeypatch):
    torch = pytest.importorskip("torch")
    dff, _ = simulate(3, 90, framerate=30.0, noise_std=0.05, seed=5)
    dff[1] = 1.0
    told = {"n_jobs": 1, **QUICK}
    with pytest.warns(UserWarning, match="constant"):
        here = deconvolve(dff, 30.0, **told)
    # The way of a device, by the recursions of any array library.
    monkeypatch.setattr("cofem.calcium.deconvolution.backend", Pretended())
    done = []
    with pytest.warns(UserWarning, match="constant"):
        there = deconvolve(torch.asarray(dff), 30.0, callback=done.append, **told)
    assert done[-1] == 3
    for name in ("spikes", "prob_active", "spike_counts", "denoised", "std"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=CLOSE)
    assert there.messages == here.messages


class Pretended:
    """The backend, but tensors on a host count as a GPU's."""

    def __getattr__(self, name):
        return (lambda x: True) if name == "has_engine" else getattr(backend, name)
