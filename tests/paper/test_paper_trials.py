"""Trials that survive interruptions: the CSV, and the jobs that fill it."""

import math
import os

import pytest

from cofem.cli.paper import only_run
from cofem.paper.study import Job, open_files, run_jobs, selected
from cofem.paper.trialfile import TrialFile

COLUMNS = {"x": float, "seed": int, "method": str, "error": float}
KEY = ("x", "seed", "method")


def row(seed, x=0.1, method="EM", error=1.5):
    return {"x": x, "seed": seed, "method": method, "error": error}


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    file = TrialFile(path, COLUMNS, KEY)
    file.append(row(0))
    whole, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda at, data: write(at, data[:5]))  # a nearly full disk
    with pytest.raises(OSError, match="holds the 1 trials before this one; free some space"):
        file.append(row(1))
    assert path.read_bytes() == whole
    assert not file.has(row(1))
    monkeypatch.undo()
    file.append(row(1))
    assert TrialFile(path, COLUMNS, KEY).rows == [row(0), row(1)]


def test_a_second_run_of_a_figure_in_one_folder_is_refused(tmp_path):
    with (
        only_run(tmp_path / "new", "fig1"),
        pytest.raises(BlockingIOError, match=r"another run is writing to .*fig1a\.csv"),
        only_run(tmp_path / "new", "fig1"),
    ):
        pass
    assert TrialFile(tmp_path / "new" / "fig1a.csv", COLUMNS, KEY).rows == []


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        row(0, x=0.1 + 0.2),
        row(1, method='CoFEM, paper\'s "setting"', error=math.inf),
        row(2, method="two\nlines", error=1e-300),
    ]
    file = TrialFile(path, COLUMNS, KEY)
    for one in rows:
        file.append(one)
    again = TrialFile(path, COLUMNS, KEY)
    rows[2]["method"] = "two lines"
    assert again.rows == rows
    assert len(path.read_text().splitlines()) == 4


def test_a_half_written_last_line_is_discarded(tmp_path):
    path = tmp_path / "t.csv"
    file = TrialFile(path, COLUMNS, KEY)
    file.append(row(0))
    whole = path.read_bytes()
    file.append(row(1))
    content = path.read_bytes()
    for cut in range(len(whole), len(content)):
        path.write_bytes(content[:cut])
        again = TrialFile(path, COLUMNS, KEY)
        assert again.rows == [row(0)]
        assert not again.has(row(1))
        again.append(row(1))
        assert TrialFile(path, COLUMNS, KEY).rows == [row(0), row(1)]


def test_an_interrupted_header_is_written_again(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,se")
    TrialFile(path, COLUMNS, KEY).append(row(0))
    assert TrialFile(path, COLUMNS, KEY).rows == [row(0)]


def test_other_columns_and_damaged_lines_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    TrialFile(path, COLUMNS, KEY).append(row(0))
    with pytest.raises(ValueError, match="other columns"):
        TrialFile(path, {"y": int}, ["y"])
    for bad in ("0.1,zero,EM,1.0\n", "0.1,1,EM\n"):
        path.write_bytes(path.read_bytes() + bad.encode())
        with pytest.raises(ValueError, match="line 3: not a trial"):
            TrialFile(path, COLUMNS, KEY)
        path.write_bytes(path.read_bytes()[: -len(bad)])


def test_a_line_that_is_no_csv_is_refused_with_its_number(tmp_path):
    # Found by a fuzzer: a return inside a field, and a field of more than 128 KiB.
    path = tmp_path / "t.csv"
    TrialFile(path, COLUMNS, KEY).append(row(0))
    good = path.read_bytes()
    for bad in (b"0.1,1,E\rM,1.5\n", b"0.1,1," + b"E" * (1 << 18) + b",1.5\n"):
        path.write_bytes(good + bad)
        with pytest.raises(ValueError, match=r"t\.csv, line 3: not a trial: .*mend the line"):
            TrialFile(path, COLUMNS, KEY)
        assert path.read_bytes() == good + bad


def test_only_the_trials_of_a_run_are_selected(tmp_path):
    file = TrialFile(tmp_path / "t.csv", COLUMNS, KEY)
    for seed in range(4):
        file.append(row(seed))
    asked = [{"x": 0.1, "seed": seed, "method": "EM"} for seed in (1, 3, 9)]
    assert [r["seed"] for r in file.select(asked)] == [1, 3]


# -- jobs ------------------------------------------------------------------------


def jobs(n):
    return [Job("a", {"x": 1.0, "seed": seed, "method": "EM"}) for seed in range(n)]


def measured(panel, x, seed, method):
    assert panel == "a"
    return {"error": x + seed}


def files(folder):
    return open_files(folder, "fig9", ["a"], COLUMNS, KEY)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    made = []

    def interrupted(seed, **key):
        if seed == 3:
            raise KeyboardInterrupt
        made.append(seed)
        return measured(seed=seed, **key)

    with pytest.raises(KeyboardInterrupt):
        run_jobs("test", jobs(6), files(tmp_path), interrupted)
    assert made == [0, 1, 2]
    seen = []

    def rest(seed, **key):
        made.append(seed)
        return measured(seed=seed, **key)

    run_jobs("test", jobs(6), files(tmp_path), rest, report=lambda *state: seen.append(state))
    assert made == [0, 1, 2, 3, 4, 5]
    assert seen == [("test", done, 6) for done in (3, 4, 5, 6)]
    rows = selected(files(tmp_path), jobs(6))["a"]
    assert [r["error"] for r in rows] == [1.0 + seed for seed in range(6)]


def test_workers_make_the_same_trials(tmp_path):
    run_jobs("test", jobs(7), files(tmp_path), measured, workers=2)
    rows = files(tmp_path)["a"].rows
    assert sorted(r["seed"] for r in rows) == list(range(7))
    assert all(r["error"] == 1.0 + r["seed"] for r in rows)
