"""What it costs to start: imports beside that of torch, a first answer, and commands that only read.

    python benchmarks/imports.py [--rounds 7]

Every measurement is a fresh interpreter; all take turns; CPU seconds of the process and their medians. A
first answer is the familiarity of one image, by a small convolutional net from a file.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from interleaved import ratios, spread

import totalcal
from totalcal.nets import small_convnet

ANSWER = "import sys, torch, totalcal as t; t.load(sys.argv[1]).predict(torch.rand(1, 1, 28, 28)).familiarity"
MAIN = "import sys; from totalcal.cli import main; main()"
IMPORT_AIM, ANSWER_AIM, START_AIM = 1.15, 1.2, 0.5


def cpu_seconds(*command: str) -> float:
    """Of a child process, from its start to its end."""
    before = os.times()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def write_model(name: str, path: Path) -> str:
    torch.manual_seed(0)
    model = totalcal.MODELS[name](small_convnet(10, (1, 28, 28)), 10)
    rows, labels = torch.rand(1200, 1, 28, 28), torch.arange(1200) % 10
    totalcal.remember(model, (rows[:800], labels[:800]), (rows[800:], labels[800:]), progress=False)
    totalcal.save(model, path)
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        files = {name: write_model(name, Path(folder) / name) for name in ("softmax", "etp")}
        tried = {
            "import torch": ("-c", "import torch"),
            "import totalcal": ("-c", "import totalcal; totalcal.etp"),
            "import fit": ("-c", "import totalcal; totalcal.fit"),
            **{f"first answer of {name}": ("-c", ANSWER, file) for name, file in files.items()},
            "totalcal --help": ("-c", MAIN, "--help"),
            "totalcal inspect": ("-c", MAIN, "inspect", files["etp"]),
        }
        times: dict[str, list[float]] = {name: [] for name in tried}
        for index in range(-1, rounds):  # the first fills caches
            for name, command in tried.items():
                seconds = cpu_seconds(*command)
                if index >= 0:
                    times[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in medians.items():
        print(f"{name}: {seconds:.2f} s")
    found = ratios(times, "import totalcal", "import torch")
    verdict = _verdict(statistics.median(found) <= IMPORT_AIM)
    print(f"\nimport totalcal / import torch: {spread(found)}, aim ≤ {IMPORT_AIM}: {verdict}")
    for name in files:
        more = medians[f"first answer of {name}"] - medians["import torch"]
        print(
            f"first answer of {name}, beyond import torch: {more:.2f} s, aim ≤ {ANSWER_AIM} s: "
            f"{_verdict(more <= ANSWER_AIM)}"
        )
    for name in ("totalcal --help", "totalcal inspect"):
        print(f"{name}: {medians[name]:.2f} s, aim < {START_AIM} s: {_verdict(medians[name] < START_AIM)}")


def _verdict(reached: bool) -> str:
    return "met" if reached else "MISSED"


if __name__ == "__main__":
    main()
