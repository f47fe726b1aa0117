"""A grid gives the same bits on every engine, and after every kind of death."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from totalcal.cli import run_application as run
from totalcal_lab.cli.app import app
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.folders import run_folders
from totalcal_lab.records.progress import grid_progress

# Enough epochs that the killing is done before the work is, on a fast machine too.
SETTINGS = {"epochs": 40, "train_limit": 400, "test_limit": 40, "ood_limit": 40, "joint_sets": 2}
MODELS = ["softmax", "etp", "temperature"]
PATIENCE = 120


def _planned(root):
    return grid_jobs(Grid("digits", "laptop", SETTINGS).configurations(MODELS, 1), root)


def _results(root):
    """Every file but those of times and locks, by path."""
    names = ("config.json", "history.jsonl", "records.jsonl", "done")
    return {f"{run.name}/{name}": _bytes(run.path / name) for run in run_folders(root) for name in names}


def _bytes(path):
    return path.read_bytes() if path.exists() else None


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    _planned(root).run("sequential")
    return root


def _command(root, engine="loky"):
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    arguments = ["run", "digits", "--models", ",".join(MODELS), "--seeds", "1", "--out", str(root)]
    program = "from totalcal_lab.cli import main; main()"
    return [sys.executable, "-c", program, *arguments, "--engine", engine, "--workers", "2", *settings]


def _until(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it took too long")


def _epochs(root):
    return sum(run.epochs_done for run in grid_progress(run_folders(root)).runs)


def _busy_workers(parent):
    """Those of loky's children that compute: its helpers never take a second of the processor."""
    return [child for child in psutil.Process(parent.pid).children() if sum(child.cpu_times()[:2]) > 1]


def _started(root):
    """The command at work, with at least one epoch behind it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background, and theirs, ignore it
    command = subprocess.Popen(_command(root), stderr=subprocess.PIPE, text=True, start_new_session=True)
    reached = _epochs(root) if root.exists() else 0
    _until(lambda: list(root.glob("*/timing.jsonl")) and _epochs(root) > reached)
    return command


@pytest.mark.exhaustive  # its workers may outlive it for minutes on a busy machine
def test_killed_workers_a_killed_command_and_ctrl_c_change_nothing(tmp_path, undisturbed):
    root = tmp_path / "runs"
    command = _started(root)
    os.kill(_busy_workers(command)[0].pid, signal.SIGKILL)
    reached = _epochs(root)
    _until(lambda: _epochs(root) > reached)
    workers = psutil.Process(command.pid).children()
    command.kill()
    command.wait()
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []  # they end with their parent

    command = _started(root)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: to the command and its workers
    _, said = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130
    assert "goes on from here" in said
    assert "Traceback" not in said

    _planned(root).run("sequential")
    assert _results(root) == _results(undisturbed)


@pytest.mark.exhaustive
def test_a_cluster_gives_the_same_bits(tmp_path, undisturbed):
    pytest.importorskip("ray")
    assert subprocess.run(_command(tmp_path / "runs", "ray"), check=False).returncode == 0
    assert _results(tmp_path / "runs") == _results(undisturbed)


def test_a_failing_run_is_named_and_the_exit_code_says_so(tmp_path, capsys):
    """A rate of 10³⁰ makes numbers that are not finite at the second step."""
    arguments = [
        "run",
        "digits",
        "--models",
        "softmax",
        "--seeds",
        "1",
        "--out",
        str(tmp_path),
        "--epochs",
        "1",
    ]
    code = run(app, [*arguments, "--engine", "sequential", "--set", "learning_rate=1e30"])
    said = capsys.readouterr().err
    assert code == 1
    assert "digits laptop softmax, seed 0" in said
    assert "DivergenceError" in said


def test_status_tells_a_program_what_it_wants_to_know(undisturbed, capsys):
    run(app, ["status", str(undisturbed), "--json"])
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["model"], run["state"], run["epochs_done"]) for run in runs] == [
        ("softmax", "done", 40),
        ("etp", "done", 40),
        ("temperature", "done", 0),
    ]
