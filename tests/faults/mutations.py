"""A seeded mutator over every reader of `corpora.py`, with limits on time and memory.

    python tests/faults/mutations.py --mutations 100000 --seed 0

Each mutation ends in the right answer or in a `TotalcalError`; all else is counted in a losing column and
shown with the command that repeats it. Cases run in a child process: one that dies, hangs or takes a gigabyte
ends nothing.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SECONDS = 10  # of one case
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where files cost no disk
GIGABYTE = 1 << 30
COLUMNS = ("read", "clear", "traceback", "altered", "died", "hung", "over 1 GB")
LOSING = COLUMNS[2:]
NUMBERS = (0, 1, 2, *(2**bits - less for bits in (7, 8, 15, 16, 31, 32, 63, 64) for less in (0, 1)))
WORDS = (
    b"NaN", b"1e999", b"-1", b"9" * 50, b"9" * 5000, b"[" * 3000, b'{"a":' * 500, b"null", b"\\ud800", b"..",
    b"/", b"\0", b"\xff\xfe", b"\xe9", b'"', b"\n", b"\t", b"'O'", b"|O", b"(1<<60,)", b"-922337203685477580",
)  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    """One to four small disasters: bits, bytes, numbers, words, and whole pieces lost, doubled or swapped."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(MUTATIONS)(bytearray(data), random)
    return bytes(data)


def _flip(data: bytearray, random: Random) -> bytearray:
    for _ in range(random.choice((1, 1, 2, 8))):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return data


def _number(data: bytearray, random: Random) -> bytearray:
    size = random.choice((1, 2, 4, 8))
    place = random.randrange(len(data) + 1)
    value = random.choice(NUMBERS) % 256**size
    data[place : place + size] = value.to_bytes(size, random.choice(("little", "big")))
    return data


def _digit(data: bytearray, random: Random) -> bytearray:
    places = [place for place, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if places:
        place = random.choice(places)
        data[place : place + 1] = random.choice((b"9", b"0", b"-", b"99", b"9999999999", b".", b"e9", b""))
    return data


def _word(data: bytearray, random: Random) -> bytearray:
    place = random.randrange(len(data) + 1)
    data[place : place + random.choice((0, 1, 4))] = random.choice(WORDS)
    return data


def _piece(data: bytearray, random: Random) -> tuple[int, int]:
    first = random.randrange(len(data) + 1)
    return first, min(len(data), first + random.choice((1, 2, 8, 64, 1024)))


def _lose(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    del data[first:last]
    return data


def _double(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    data[first:first] = data[first:last] * random.choice((1, 1, 10))
    return data


def _swap(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    place = random.randrange(len(data) + 1)
    data[place : place + last - first] = data[first:last]
    return data


def _blank(data: bytearray, random: Random) -> bytearray:
    first, last = _piece(data, random)
    data[first:last] = bytes([random.choice((0, 0xFF, 0x20))]) * (last - first)
    return data


def _cut(data: bytearray, random: Random) -> bytearray:
    return data[: random.randrange(len(data) + 1)]


def _append(data: bytearray, random: Random) -> bytearray:
    return data + random.randbytes(random.choice((1, 16, 4096)))


MUTATIONS: tuple[Callable[[bytearray, Random], bytearray], ...] = (
    _flip, _flip, _number, _number, _digit, _word, _lose, _double, _swap, _blank, _cut, _append,
)  # fmt: skip


def run_case(name: str, number: int, seed: int, folder: Path) -> tuple[str, str]:
    """How one case ends, and what it said."""
    from corpora import SUBJECTS

    from totalcal.errors import TotalcalError

    subject, random = SUBJECTS[name], Random(f"{seed}/{name}/{number}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = subject.make(folder)
    sound = path.read_bytes()
    expected = subject.read(path) if subject.sealed else None
    if subject.wrap is not None and subject.inner is not None and random.random() < 0.6:
        path.write_bytes(subject.wrap(mutated(subject.inner(sound), random), sound))
    else:
        path.write_bytes(mutated(sound, random))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGALRM, _hung)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found = subject.read(path)
        end = "read", ""
        if subject.sealed and found is not None and found != expected:
            end = "altered", "it was read as something else than was written"
    except TotalcalError as error:
        end = "clear", str(error)
        if isinstance(error.__cause__, MemoryError):
            end = "over 1 GB", str(error)
    except TimeoutError:
        end = "hung", f"more than {SECONDS} s"
    except MemoryError as error:
        end = "over 1 GB", str(error)
    except Exception as error:
        end = "traceback", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return ("over 1 GB", f"{grown} bytes") if grown > GIGABYTE else end


def _hung(*_: Any) -> None:
    raise TimeoutError


def child(cases: list[tuple[str, int]], seed: int, folder: Path) -> None:
    """Run cases one after the other, each told before it begins and when it has ended."""
    from corpora import SUBJECTS

    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no report
    for name in dict(cases):  # what a reader imports is no part of what it takes
        (folder / "warm").mkdir(exist_ok=True)
        SUBJECTS[name].read(SUBJECTS[name].make(folder / "warm"))
        shutil.rmtree(folder / "warm")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * GIGABYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, number in cases:
        print(json.dumps([name, number]), file=report, flush=True)
        end = run_case(name, number, seed, folder / "case")
        print(json.dumps(end), file=report, flush=True)
        if end[0] == "over 1 GB":
            os._exit(0)  # the peak of a process never falls again


class Lost(NamedTuple):
    """A case in a losing column."""

    name: str
    number: int
    end: str
    message: str


def run(cases: list[tuple[str, int]], seed: int) -> tuple[dict[str, Counter[str]], list[Lost]]:
    """All cases, in as many children as it takes: how they ended per reader, and the lost ones."""
    ends: dict[str, Counter[str]] = {name: Counter() for name in dict(cases)}
    lost = []
    while cases:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            arguments = [sys.executable, __file__, "--child", folder, "--seed", str(seed)]
            given = json.dumps(cases)
            done = subprocess.run(arguments, input=given, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if not lines:
            raise RuntimeError(f"the child did not begin: {done.stderr}")
        if len(lines) % 2:
            lines.append(["died", f"exit status {done.returncode}: {done.stderr[-200:]}"])
        for (name, number), (end, message) in zip(lines[::2], lines[1::2], strict=True):
            ends[name][end] += 1
            if end in LOSING:
                lost.append(Lost(name, number, end, message))
        cases = cases[len(lines) // 2 :]
    return ends, lost


def table(ends: dict[str, Counter[str]]) -> str:
    total = sum(ends.values(), Counter())
    rows = [*ends.items(), ("all", total)]
    lines = [f"{'':24}{'tried':>8}" + "".join(f"{column:>11}" for column in COLUMNS)]
    lines += [
        f"{name:24}{sum(counts.values()):8}" + "".join(f"{counts[column]:11}" for column in COLUMNS)
        for name, counts in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutations", type=int, default=3_500, help="in all, shared out evenly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="this reader; may be repeated")
    parser.add_argument("--case", type=int, help="this case alone, with its traceback")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child is not None:
        child([tuple(case) for case in json.load(sys.stdin)], chosen.seed, chosen.child)
        return 0
    from corpora import SUBJECTS

    names = chosen.only or list(SUBJECTS)
    if chosen.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*run_case(names[0], chosen.case, chosen.seed, Path(folder) / "case"), sep=": ")
        return 0
    each = -(-chosen.mutations // len(names))
    start = time.monotonic()
    ends, lost = run([(name, number) for name in names for number in range(each)], chosen.seed)
    print(table(ends))
    print(f"{time.monotonic() - start:.0f} s, seed {chosen.seed}")
    for name, number, end, message in lost[:40]:
        print(f"{end}: --only {name!r} --case {number} --seed {chosen.seed}: {message[:300]}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
