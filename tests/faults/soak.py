"""The whole harness, and the one table that it is judged by.

    python tests/faults/soak.py --mutations 100000 --cases 1000

Every losing column must be 0. The tables of the parts say which reader, fault or door it was, and the lost
cases how to repeat them.
"""

import argparse
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping

import disasters
import extremes
import mutations
import torch
from corpora import SUBJECTS

COLUMNS = {
    "right or clear": ("read", "right", "clear"),
    "traceback": ("traceback",),
    "wrong": ("altered", "wrong"),
    "segfault": ("died",),
    "hung": ("hung",),
    "over 1 GB": ("over 1 GB",),
}


def row(name: str, counts: Mapping[str, int]) -> str:
    """A line of the table in Markdown."""
    sums = [sum(counts.get(end, 0) for end in ends) for ends in COLUMNS.values()]
    return f"| {name} | {sum(counts.values()):,} | " + " | ".join(f"{each:,}" for each in sums) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutations", type=int, default=100_000, help="damaged files, over all readers")
    parser.add_argument("--cases", type=int, default=1_000, help="other faults")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        faults, lost, skipped = disasters.run(chosen.cases, chosen.seed)
    print(disasters.table(faults), flush=True)
    numbers, lost_numbers = extremes.run()
    each = -(-chosen.mutations // len(SUBJECTS))
    cases = [(name, number) for name in SUBJECTS for number in range(each)]
    files, lost_files = mutations.run(cases, chosen.seed)
    print(mutations.table(files))
    print(*skipped, *lost, *lost_numbers, *lost_files, sep="\n")
    print(f"| | tried | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    print(row("mutated files", sum(files.values(), Counter())))
    print(row("other faults", sum(faults.values(), Counter())))
    print(row("extreme numbers", numbers))
    print(
        f"{len(SUBJECTS)} readers, {len(faults)} kinds of fault, {disasters.kills(faults)} kills; "
        f"{time.monotonic() - start:.0f} s, seed {chosen.seed}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
    return 1 if lost or lost_numbers or lost_files else 0


if __name__ == "__main__":
    sys.exit(main())
