"""Two hosts with addresses of their own, made of network namespaces, give what one machine gives.

Skipped, with the reason, where such hosts cannot be made: it takes Linux, `ip` and the right to use it.
"""

import contextlib
import json
import os
import runpy
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from totalcal import fit
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.folders import run_folders
from totalcal_lab.records.progress import grid_progress

pytestmark = pytest.mark.exhaustive  # four minutes

SETTINGS = {"epochs": 25, "train_limit": 400, "test_limit": 40, "ood_limit": 40, "joint_sets": 2}
MODELS = ["softmax", "etp", "temperature"]
FILES = ("config.json", "history.jsonl", "records.jsonl", "done")
ADDRESSES = ("10.213.7.1", "10.213.7.2")
RAY = Path("/tmp/ray")
PATIENCE = 400
PROGRAM = [sys.executable, "-c", "from totalcal_lab.cli import main; main()"]


class Host:
    """A network namespace: programs in it have its address and no other way out.

    Ray keeps the address of its host in a folder of fixed name: each host has its own in that place.
    """

    def __init__(self, number: int, home: Path) -> None:
        self.name, self.link, self.address = f"totalcal{number}", f"tc-veth{number}", ADDRESSES[number]
        self.ray = home / self.name
        for folder in (self.ray, RAY):
            folder.mkdir(parents=True, exist_ok=True)
        self.programs: list[subprocess.Popen] = []

    def start(self, *words: str, log: Path, **environment: str) -> subprocess.Popen:
        own = ["sh", "-c", f'mount --bind "$0" {RAY} && exec "$@"', str(self.ray)]
        command = ["ip", "netns", "exec", self.name, *own, *words]
        with log.open("ab") as stream:
            program = subprocess.Popen(
                command,
                stdout=stream,
                stderr=stream,
                env=os.environ | environment,
                start_new_session=True,
            )
        self.programs.append(program)
        return program

    def cut_off(self) -> None:
        """Nothing reaches it, and it reaches nobody: no connection is closed, all of them fall silent."""
        _ip("-n", self.name, "link", "set", self.link, "down")

    def kill(self) -> None:
        """Everything in it, at once: a power cut."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False
        )
        for pid in map(int, found.stdout.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for program in self.programs:
            program.wait()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts(tmp_path):
    """Two hosts with a cable between them, gone when the test is over."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` to make hosts with")
    made = [Host(number, tmp_path) for number in range(2)]
    try:
        for host in made:
            _ip("netns", "add", host.name)
        ends = [word for host in made for word in ("name", host.link, "netns", host.name)]
        _ip("link", "add", *ends[:4], "type", "veth", "peer", *ends[4:])
        for host in made:
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", host.link)
            for link in ("lo", host.link):
                _ip("-n", host.name, "link", "set", link, "up")
    except subprocess.CalledProcessError as error:
        _remove(made)
        pytest.skip(f"no hosts can be made here: {error.stderr.strip()}")
    yield made
    _remove(made)


def _remove(hosts) -> None:
    for host in hosts:
        host.kill()
        subprocess.run(["ip", "netns", "delete", host.name], capture_output=True, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one machine gives."""
    root = tmp_path_factory.mktemp("alone")
    grid_jobs(Grid("digits", "laptop", SETTINGS).configurations(MODELS, 1), root).run("sequential")
    return _results(root)


def _results(root: Path) -> dict[str, bytes]:
    """Every file but those of times and locks; a baseline, which is not trained, has no history."""
    files = [run.path / name for run in run_folders(root) for name in FILES]
    return {str(file.relative_to(root)): file.read_bytes() for file in files if file.exists()}


def _command(root: Path, engine: str) -> list[str]:
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    arguments = ["run", "digits", "--models", ",".join(MODELS), "--seeds", "1", "--out", str(root)]
    return [*PROGRAM, *arguments, "--engine", engine, "--workers", "2", *settings]


def _dask(hosts, log: Path) -> dict[str, str]:
    first, address = hosts[0], f"tcp://{ADDRESSES[0]}:8786"
    told = {
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1000000",
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "45s",  # a busy host is silent for a while, too
    }
    scheduler = ["scheduler", "--host", ADDRESSES[0], "--port", "8786", "--no-dashboard", "--no-show"]
    first.start(sys.executable, "-m", "distributed.cli.dask_" + scheduler[0], *scheduler[1:], log=log, **told)
    for host in hosts:
        worker = ["--host", host.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        host.start(sys.executable, "-m", "distributed.cli.dask_worker", address, *worker, log=log, **told)
    return told | {"DASK_SCHEDULER_ADDRESS": address}


_STARTED = "Ray runtime started"


def _ray(hosts, log: Path) -> dict[str, str]:
    pytest.importorskip("ray")
    told = {
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_failure_threshold": "5",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),  # of this cluster alone
    }
    program = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--block"]
    program += ["--object-store-memory=100000000", "--disable-usage-stats"]
    head = ["--head", "--port=6379", "--include-dashboard=false"]
    for host, own in zip(hosts, (head, [f"--address={ADDRESSES[0]}:6379"]), strict=True):
        started = log.read_text().count(_STARTED) if log.exists() else 0
        node = host.start(*program, *own, f"--node-ip-address={host.address}", log=log, **told)
        _until(lambda number=started: log.read_text(errors="replace").count(_STARTED) > number, node, log)
    return told | {"RAY_ADDRESS": f"{ADDRESSES[0]}:6379"}


@pytest.mark.parametrize("cluster", [_dask, _ray], ids=["dask", "ray"])
def test_a_host_cut_off_and_killed_in_the_middle_changes_no_byte(cluster, hosts, alone, tmp_path):
    pytest.importorskip("distributed")
    root, log = tmp_path / "runs", tmp_path / "log"
    environment = cluster(hosts, log) | {"OMP_NUM_THREADS": "1"}
    command = hosts[0].start(*_command(root, cluster.__name__[1:]), log=log, **environment)
    _until(lambda: root.exists() and list(root.glob("*/timing.jsonl")) and _epochs(root) > 5, command, log)
    hosts[1].cut_off()
    time.sleep(2)
    hosts[1].kill()
    _until(lambda: command.poll() is not None, None, log)
    assert command.returncode == 0, log.read_text(errors="replace")[-3000:]
    assert _results(root) == alone


def _epochs(root: Path) -> int:
    return sum(run.epochs_done for run in grid_progress(run_folders(root)).runs)


def _until(condition, command: subprocess.Popen | None, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        if command is not None and command.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"it took too long, or ended: {log.read_text(errors='replace')[-3000:]}")


def test_two_ranks_on_two_hosts_are_the_run_of_one(hosts, tmp_path):
    path = Path(__file__).parents[1] / "training" / "two_ranks.py"
    program = "import json, runpy, sys; runpy.run_path(sys.argv[1], json.loads(sys.argv[2]), '__main__')"
    ranks = []
    for rank, host in enumerate(hosts):
        told = {"rank": rank, "folder": str(tmp_path), "port": "29511", "address": ADDRESSES[0], "hosts": 2}
        words = [sys.executable, "-c", program, str(path), json.dumps(told)]
        ranks.append(host.start(*words, log=tmp_path / "log", GLOO_SOCKET_IFNAME=host.link))
    for program in ranks:
        assert program.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-3000:]
    script = runpy.run_path(str(path))
    model = script["make_softmax"](0)
    history = fit(model, script["data"](), epochs=3, batch_size=16)
    for rank in range(2):
        found = torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True)
        for name, value in model.state_dict().items():
            assert_close(found["softmax"][name], value, rtol=1e-5, atol=1e-6)
        assert found["losses"] == pytest.approx([report.loss for report in history.epochs])
