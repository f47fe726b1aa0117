"""The whole harness, and the one table that it is judged by.

    python soak/soak.py --mutations 100000 --cases 1000
    python soak/soak.py --part faults --cases 300

Killed, it goes on where it was: a journal keeps every case, and the table is that of the journal, however
many calls it took. Another version of the code begins another journal. Every losing column must be 0. The
tables of the parts say which reader, fault or door it was, and the lost cases how to repeat them.
"""

import argparse
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

import disasters
import extremes
import greedy
import lifecycle
import mutations
from corpora import SUBJECTS
from journal import Journal, code

PARTS = ("faults", "numbers", "files", "lives", "greed")
COLUMNS = {
    "right or clear": ("read", "right", "clear"),
    "traceback": ("traceback",),
    "wrong": ("altered", "wrong"),
    "segfault": ("died",),
    "hung": ("hung",),
    "over budget": ("over budget",),
    "torn": ("torn",),
}


def row(name: str, counts: Mapping[str, int]) -> str:
    """A line of the table in Markdown."""
    sums = [sum(counts.get(end, 0) for end in ends) for ends in COLUMNS.values()]
    return f"| {name} | {sum(counts.values()):,} | " + " | ".join(f"{each:,}" for each in sums) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutations", type=int, default=100_000, help="damaged files, over all readers")
    parser.add_argument("--cases", type=int, default=1_000, help="other faults")
    parser.add_argument("--steps", type=int, default=10_000, help="of the lives of models")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append", help="this alone; may be repeated")
    parser.add_argument(
        "--journal", type=Path, help="folder of what was done; left out, one per code and seed"
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    home = chosen.journal or Path("build") / "soak" / f"{code()}-{chosen.seed}"
    faults, numbers, files, lives, greed = (Journal(home / f"{part}.jsonl") for part in PARTS)
    parts = chosen.part or PARTS
    skipped = []
    if "faults" in parts:
        skipped = disasters.run(chosen.cases, chosen.seed, journal=faults).skipped
    if "numbers" in parts and "extremes" not in numbers:
        numbers.note("extremes", *extremes.run())
    if "files" in parts:
        each = -(-chosen.mutations // len(SUBJECTS))
        mutations.run([(name, number) for number in range(each) for name in SUBJECTS], chosen.seed, files)
    if "lives" in parts:
        lifecycle.run(chosen.steps, chosen.seed, lives)
    if "greed" in parts:
        greedy.run(list(greedy.CASES), greed)
    found = disasters.summed(faults)
    counts, lost_numbers = numbers.ends.get("extremes", ({}, []))
    ends, lost_files = mutations.summed(files)
    print(disasters.table(found.ends), mutations.table(ends), sep="\n")
    print(*skipped, *found.lost, *lost_numbers, *lost_files, sep="\n")
    print(f"| | tried | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    print(row(f"mutated files, {len(ends)} readers", sum(ends.values(), Counter())))
    print(
        row(
            f"other faults, {len(found.ends)} kinds, {found.kills} kills", sum(found.ends.values(), Counter())
        )
    )
    print(row("extreme numbers", counts))
    asked, lost_greed = greedy.summed(greed)
    print(row("commands on small files that ask for much", asked), *lost_greed, sep="\n")
    lived, broken = lifecycle.summed(lives)
    print(row("steps in the life of a model", lived), *broken, sep="\n")
    print(
        f"{home}; {time.monotonic() - start:.0f} s this time, seed {chosen.seed}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
    return 1 if found.lost or lost_numbers or lost_files or lost_greed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
