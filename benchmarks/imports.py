"""What it costs to start: importing totalcal against importing torch, and the commands that only read.

    python benchmarks/imports.py [--rounds 7]

Every measurement is a fresh interpreter; both take turns; CPU seconds of the process and its medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from interleaved import ratios, spread

IMPORTS = {
    "torch": "import torch",
    "totalcal": "import totalcal; totalcal.etp",
    "fit": "import totalcal; totalcal.fit",
}
COMMANDS = {"--help": ["--help"], "status": ["status", "--once"], "table": ["table"], "report": ["report"]}
IMPORT_AIM, START_AIM = 1.15, 0.5


def cpu_seconds(*command: str) -> float:
    """Of a child process, from its start to its end."""
    before = os.times()
    subprocess.run([sys.executable, *command], check=False, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TOTALCAL_RUNS"] = empty
        times: dict[str, list[float]] = {}
        for _ in range(rounds + 1):
            for name, code in IMPORTS.items():
                times.setdefault(f"import {name}", []).append(cpu_seconds("-c", code))
            for name, arguments in COMMANDS.items():
                call = f"from totalcal.cli import main; import sys; sys.argv[1:] = {arguments}; main()"
                times.setdefault(f"totalcal {name}", []).append(cpu_seconds("-c", call))
    medians = {
        name: statistics.median(seconds[1:]) for name, seconds in times.items()
    }  # the first fills caches
    for name, seconds in medians.items():
        print(f"{name}: {seconds:.2f} s")
    found = ratios(times, "import totalcal", "import torch")[1:]
    verdict = _verdict(statistics.median(found) <= IMPORT_AIM)
    print(f"\nimport totalcal / import torch: {spread(found)}, aim ≤ {IMPORT_AIM}: {verdict}")
    for name in COMMANDS:
        seconds = medians[f"totalcal {name}"]
        print(f"totalcal {name}: {seconds:.2f} s, aim < {START_AIM} s: {_verdict(seconds < START_AIM)}")


def _verdict(reached: bool) -> str:
    return "met" if reached else "MISSED"


if __name__ == "__main__":
    main()
