"""A command whose work dies says so in one line, and what it is told reaches the work."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="work is done in a child on Linux")

PROGRAM = """
import os, signal, sys, time
from totalcal.cli.child import in_child

def work():
    {}
    return 7

sys.exit(in_child(work))
"""


def started(work):
    command = [sys.executable, "-c", PROGRAM.format(work)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("name", "code"), [("pass", 7), ("raise SystemExit(3)", 3)])
def test_the_exit_code_is_that_of_the_work(name, code):
    process = started(name)
    process.communicate(timeout=60)
    assert process.returncode == code


@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT", "SIGSEGV"])
def test_work_that_dies_is_told_of_in_words(name):
    _, said = (process := started(f"os.kill(os.getpid(), signal.{name})")).communicate(timeout=60)
    assert process.returncode == 1
    assert name in said
    assert "--memory" in said
    assert "Traceback" not in said


def test_memory_beyond_the_budget_is_refused_to_the_work():
    work = "from totalcal.files import budget; budget.limit_memory(600 << 20); bytearray(1 << 30)"
    _, said = (process := started(work)).communicate(timeout=60)
    assert process.returncode == 1
    assert "MemoryError" in said


def test_a_signal_that_is_sent_to_the_command_reaches_the_work_once():
    work = "signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True)); "
    work += "print('ready', flush=True); time.sleep(1)"
    process = started(work)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("told\n", 7)


def test_work_ends_with_a_command_that_is_killed():
    process = started("print(os.getpid(), flush=True); time.sleep(60)")
    status = Path(f"/proc/{process.stdout.readline().strip()}/status")
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():  # a zombie: nobody asked of it yet
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_command_keeps_to_its_budget(tmp_path):
    rows = np.full((12_000_000, 2), 0.5)
    np.savez_compressed(tmp_path / "a.npz", probabilities=rows, labels=np.zeros(len(rows), np.uint8))
    words = ["score", str(tmp_path / "a.npz"), "--memory", "900M"]
    command = [sys.executable, "-c", "from totalcal.cli import main; main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "a.npz" in done.stderr
    assert "--memory" in done.stderr
