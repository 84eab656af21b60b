"""One writer for an output: a second process, and a process that dies."""

import os
import signal
import subprocess
import sys

import pytest

from cofem.files import only_writer

HOLD = """
import sys, time
from cofem.files import only_writer
with only_writer(sys.argv[1], "store"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["file", "folder"])
def path(request, tmp_path):
    if request.param == "folder":
        return tmp_path
    (tmp_path / "trials.csv").touch()
    return tmp_path / "trials.csv"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_a_second_process_is_refused_until_the_first_is_killed(path):
    child = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        with (
            pytest.raises(BlockingIOError, match=r"store: another run is writing to .*; wait"),
            only_writer(path, "store"),
        ):
            pass
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with only_writer(path, "store"):
        assert os.listdir(path if path.is_dir() else path.parent) in ([], ["trials.csv"])


def test_the_lock_ends_with_the_block(path):
    for _ in range(2):
        with only_writer(path):
            pass
