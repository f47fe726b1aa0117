"""A grid that is killed again and again ends with the table of one that never was: at full size.

    python benchmarks/kills.py [--seeds 5] [--engines loky ray]

`totalcal-lab run digits --models all` runs once undisturbed; then, for each engine, with `kill -9` of a
worker, of the command itself, and of a worker again. Tables and records must agree byte for byte.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from totalcal_lab.records.folders import run_folders

TOTALCAL = str(Path(sys.executable).with_name("totalcal"))
WORKERS = 2
PAUSES = (15.0, 30.0)  # seconds before each kill: some runs are done by then, two are in the middle
VICTIMS = ("worker", "command", "worker")
MARKS = ("loky.backend.popen_loky", "ray::")  # in the command lines of workers


def command(out: Path, engine: str, seeds: int) -> list[str]:
    grid = ["run", "digits", "--models", "all", "--seeds", str(seeds)]
    place = ["--out", str(out), "--engine", engine, "--workers", str(WORKERS)]
    return [TOTALCAL, *grid, *place]


def started(out: Path, engine: str, seeds: int) -> subprocess.Popen[bytes]:
    log = log_of(out).open("ab")
    return subprocess.Popen(command(out, engine, seeds), stdout=log, stderr=log, start_new_session=True)


def disturbed(out: Path, engine: str, seeds: int) -> list[str]:
    """The grid with all victims killed, each at a random moment; returns who died after how many runs."""
    told, grid = [], started(out, engine, seeds)
    for victim in VICTIMS:
        time.sleep(random.uniform(*PAUSES))
        done = sum(run.is_done for run in run_folders(out))
        killed = random.choice(workers_of(grid.pid)) if victim == "worker" else grid.pid
        os.kill(killed, signal.SIGKILL)
        told.append(f"{victim} after {done} runs")
        if victim == "command":
            grid.wait()
            grid = started(out, engine, seeds)
    finish(grid, out)
    return told


def finish(grid: subprocess.Popen[bytes], out: Path) -> None:
    if grid.wait() != 0:
        told = log_of(out).read_text(errors="replace")[-3000:]
        raise SystemExit(f"{told}\nthe grid ended with exit code {grid.returncode}")


def log_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.log")


def workers_of(pid: int) -> list[int]:
    """The worker processes beneath a command: those with a mark in their command line."""
    found = [child for child in descendants(pid) if any(mark in command_line(child) for mark in MARKS)]
    return found or workers_of_later(pid)


def workers_of_later(pid: int) -> list[int]:
    """Workers may be on their way up."""
    time.sleep(2)
    return workers_of(pid)


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    below = [int(child) for child in children]
    return below + [deeper for child in below for deeper in descendants(child)]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def outcome(out: Path) -> tuple[bytes, list[bytes]]:
    """The table, and the records of every run."""
    table = subprocess.run([TOTALCAL, "table", str(out), "--json"], check=True, capture_output=True).stdout
    return table, [run.records_file.read_bytes() for run in run_folders(out)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--engines", nargs="+", default=["loky", "ray"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        quiet = Path(folder, "undisturbed")
        finish(started(quiet, "loky", options.seeds), quiet)
        expected = outcome(quiet)
        print(f"undisturbed: {len(expected[1])} runs", flush=True)
        for engine in options.engines:
            told = disturbed(Path(folder, engine), engine, options.seeds)
            same = outcome(Path(folder, engine)) == expected
            print(
                f"{engine}: killed {', '.join(told)}: {'the same' if same else 'ANOTHER'} table", flush=True
            )
            if not same:
                raise SystemExit(1)


if __name__ == "__main__":
    main()
