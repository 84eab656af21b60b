"""Time limits of the paper's trials: what is stopped, what is told, and processes of their own."""

import dataclasses
import os
import threading
import time

import pytest

from cofem.paper.contestants import EM, OURS, PAPER, SEQUENTIAL
from cofem.paper.figures import fig2, fig2_drawing
from cofem.paper.figures.fig2_trial import trial
from cofem.paper.isolated import Ended, Worker, isolated
from cofem.paper.study import Run, open_files


@pytest.mark.parametrize("method", [OURS.name, PAPER.name, SEQUENTIAL.name])
def test_a_trial_stops_where_the_error_is_small_enough(method):
    found = trial("dct", 0.06, 512, 1, method, "cpu", None, 2.0)
    assert found["status"] == "done"
    assert found["nrmse"] <= 2.0
    shorter = found["iterations"] - 1
    before = trial("dct", 0.06, 512, 1, method, "cpu", shorter, 2.0)
    assert before["nrmse"] > 2.0


def test_a_target_out_of_reach_is_not_reached():
    found = trial("dct", 0.12, 128, 0, EM.name, "cpu", None, 1e-3)
    assert found["status"] == "not reached"


def test_figure_2_stops_at_its_limits_and_says_so(tmp_path, monkeypatch):
    few = dataclasses.replace(fig2.PANELS["b"], quick_powers=(7, 8, 9), contestants=(EM,))
    other = dataclasses.replace(fig2.PANELS["c"], quick_powers=(7,), contestants=(OURS,))
    monkeypatch.setattr(fig2, "PANELS", {"b": few, "c": other})
    real = fig2.isolated

    def limited(function, arguments, **limits):
        # EM at 2^8 gets no memory at all.
        if arguments["method"] == EM.name and arguments["D"] == 256:
            limits["memory_limit"] = 1.0
        return real(function, arguments, **limits)

    monkeypatch.setattr(fig2, "isolated", limited)
    monkeypatch.setattr(fig2, "check", lambda rows: [])
    monkeypatch.setattr(fig2, "draw", lambda rows, *rest: kept.append(rows) or [])
    kept = []
    fig2.run_figure(Run(out=tmp_path, quick=True))
    statuses = {(row["method"], row["D"]): row["status"] for row in kept[0]["b"] + kept[0]["c"]}
    assert statuses == {
        (EM.name, 128): "done", (EM.name, 256): "memory limit", (EM.name, 512): "not run",
        (OURS.name, 128): "done",
    }  # fmt: skip
    monkeypatch.setattr(fig2, "isolated", None)  # the second time nothing runs
    fig2.run_figure(Run(out=tmp_path, quick=True))
    assert str(kept[1]) == str(kept[0])


def test_a_size_that_stopped_a_method_is_not_tried_on_other_problems(tmp_path, monkeypatch):
    few = dataclasses.replace(fig2.PANELS["b"], quick_powers=(7, 8, 9), contestants=(EM,))
    monkeypatch.setattr(fig2, "PANELS", {"b": few})
    tried, kept = [], []

    def call(function, arguments, **limits):
        tried.append((arguments["seed"], arguments["D"]))
        if arguments["seed"] == 1 and arguments["D"] == 256:
            return Ended(fig2.TIME)
        return Ended(fig2.DONE, {**fig2._nothing(fig2.DONE), "nrmse": 1.0})

    monkeypatch.setattr(fig2, "isolated", call)
    monkeypatch.setattr(fig2, "check", lambda rows: [])
    monkeypatch.setattr(fig2, "draw", lambda rows, *rest: kept.append(rows["b"]) or [])
    fig2.run_figure(Run(out=tmp_path, quick=True, draws=4))
    # The first problem was measured before anything was stopped, and what it found is kept.
    first = [(0, 128), (0, 256), (0, 512)]
    assert tried == [*first, (1, 128), (1, 256), (2, 128), (3, 128)]
    statuses = {(row["seed"], row["D"]): row["status"] for row in kept[0]}
    assert [statuses[0, D] for D in (128, 256, 512)] == ["done"] * 3
    assert [statuses[1, D] for D in (128, 256, 512)] == ["done", "time limit", "not run"]
    assert [statuses[3, D] for D in (128, 256, 512)] == ["done", "not run", "not run"]


def test_processor_time_is_measured_side_by_side_and_gives_the_same_rows(tmp_path, monkeypatch):
    few = dataclasses.replace(fig2.PANELS["b"], quick_powers=(7, 8, 9), contestants=(EM, OURS))
    monkeypatch.setattr(fig2, "PANELS", {"b": few})
    monkeypatch.setattr(fig2, "check", lambda rows: [])
    monkeypatch.setattr(fig2, "draw", lambda rows, *rest: kept.append(rows["b"]) or [])
    now, most, kept, lock = [], [], [], threading.Lock()

    def call(function, arguments, **limits):
        with lock:
            now.append(arguments)
            most.append(len(now))
        time.sleep(0.05)
        with lock:
            now.remove(arguments)
        if arguments["method"] == EM.name and arguments["D"] == 512:
            return Ended(fig2.TIME)
        return Ended(fig2.DONE, {**fig2._nothing(fig2.DONE), "nrmse": float(arguments["seed"])})

    monkeypatch.setattr(fig2, "isolated", call)
    asked = {"quick": True, "draws": 5}
    fig2.run_figure(Run(out=tmp_path / "one", clock="cpu", **asked))
    assert max(most) == 1
    fig2.run_figure(Run(out=tmp_path / "three", clock="cpu", jobs=3, **asked))
    assert max(most) == 3
    assert str(kept[0]) == str(kept[1])
    lines = [(tmp_path / name / "fig2b.csv").read_text() for name in ("one", "three")]
    assert sorted(lines[0].splitlines()) == sorted(lines[1].splitlines())
    most.clear()
    fig2.run_figure(Run(out=tmp_path / "clock", clock="wall", jobs=3, **asked))
    assert max(most) == 1


@pytest.mark.parametrize(
    ("powers", "at"),
    [
        (fig2.LOW, (3, 3, 0, 6, 4)),
        # No line reaches the largest sizes, where the marks are.
        ((12, 13, 14), (2, 0, 1)),
        ((12, 13), (1, 0)),
    ],
)
def test_marks_of_stopped_methods_stay_inside_and_apart(powers, at):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = fig2_drawing.page(12, 8)
    ax = figure.subplots(2, 3)[0, 0]
    sizes, values = [2**power for power in powers], [0.02, 20.0]
    (line,) = ax.plot([sizes[0]] * 2, values)
    fig2_drawing.powers_of_two(ax, sizes)
    fig2_drawing._scale(ax, values, len(at))
    fig2_drawing._mark_stopped(ax, fig2_drawing._stopped([
        {"D": sizes[place], "method": contestant.name, "status": "memory limit"}
        for place, contestant in zip(at, fig2.EM_BASED, strict=False)
    ]))  # fmt: skip
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == len(at)
    panel, drawn = ax.get_window_extent(), line.get_window_extent()
    assert panel.y0 <= drawn.y0 < drawn.y1 <= min(box.y0 for box in boxes)
    for i, box in enumerate(boxes):
        assert panel.x0 <= box.x0 < box.x1 <= panel.x1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_stopped_run_says_nothing_about_a_longer_limit(tmp_path):
    file = open_files(tmp_path, "fig2", ["b"], fig2.COLUMNS, fig2.KEY)["b"]
    key = {"D": 512, "seed": 0, "method": EM.name, "device": "cpu", "clock": "wall"}
    limits = {"time_limit": 10.0, "memory_limit": 1e9}
    assert fig2.known(file, key, limits) is None
    file.append({**key, **limits, **fig2._nothing("time limit")})
    assert fig2.known(file, key, limits)["status"] == "time limit"
    assert fig2.known(file, key, {**limits, "time_limit": 5.0})["status"] == "time limit"
    longer = {**limits, "time_limit": 20.0}
    assert fig2.known(file, key, longer) is None
    file.append({**key, **longer, **fig2._nothing("done")})
    for asked in (limits, longer, {**limits, "time_limit": 99.0}):
        assert fig2.known(file, key, asked)["status"] == "done"
    assert fig2.known(file, {**key, "D": 1024}, limits) is None


LONG = {
    "dictionary": "dct", "sparsity": 0.12, "D": 4096, "seed": 0, "device": "cpu",
    "method": EM.name, "iterations": 1000, "target": 2.0,
}  # fmt: skip


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_process_is_stopped_at_its_time_limit(clock):
    ended = isolated(
        "cofem.paper.figures.fig2_trial:trial", LONG, time_limit=0.5, memory_limit=1e12, clock=clock
    )
    assert ended.status == "time limit"


def test_an_error_in_the_process_is_told():
    ended = isolated("cofem.simulate:dct", {"D": 1}, time_limit=60, memory_limit=1e12)
    assert ended.status == "failed"
    assert "seed" in ended.error


def test_a_worker_keeps_its_process_until_a_call_fails():
    limits = {"time_limit": 60, "memory_limit": 1e12}
    with Worker() as worker:
        first, second = (worker.call("os:getpid", {}, **limits) for _ in range(2))
        assert first.status == second.status == "done"
        assert first.value == second.value != os.getpid()
        failed = worker.call("cofem.simulate:dct", {"D": 1}, **limits)
        assert failed.status == "failed"
        assert "seed" in failed.error
        late = worker.call(
            "cofem.paper.figures.fig2_trial:trial", LONG,
            time_limit=0.5, memory_limit=1e12,
        )  # fmt: skip
        assert late.status == "time limit"
        again = worker.call("os:getpid", {}, **limits)
        assert again.status == "done"
        assert again.value != first.value
