"""``cofem bench``: which backends are here, and a step against the floor."""

import json

import pytest
import typer
from typer.testing import CliRunner

from cofem import backend
from cofem.cli.bench import bench

app = typer.Typer()
app.command()(bench)


@pytest.fixture(autouse=True)
def _numpy_alone(monkeypatch):
    """Other libraries compile for seconds; what is timed is the same code."""
    monkeypatch.setattr(backend, "devices", lambda: devices()[:1])


devices = backend.devices


def test_json_has_every_backend_with_its_floor():
    result = CliRunner().invoke(app, ["--size", "256", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["unknowns"] == 256
    (numpy,) = facts["backends"]
    assert numpy["name"].startswith("numpy")
    assert numpy["step"] > 0
    assert numpy["floor"] > 0
    assert any("install torch" in line for line in facts["advice"])


def test_the_table_names_what_is_installed():
    result = CliRunner().invoke(app, ["--size", "128"])
    assert result.exit_code == 0, result.output
    assert "ratio" in result.stdout
    assert "numba" in result.stdout


def test_devices_put_arrays_where_they_say():
    import numpy as np

    for device in devices():
        moved = device.put(np.arange(3.0, dtype=np.float32))
        device.wait(moved)
        assert device.name.startswith(backend.library(moved)[:3])
        np.testing.assert_array_equal(backend.to_numpy(moved), [0, 1, 2])
