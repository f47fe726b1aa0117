"""Small files that ask for much: every command keeps to its budget of memory, whatever it is given to read.

    python soak/greedy.py
    python soak/greedy.py --only "score, parquet"

Each case is a command of the command line on a crafted file of a few kilobytes or megabytes that becomes
two gigabytes, with `--memory 900M`. The system measures what it takes; more than the budget and 200 MB, more
than two minutes of work, a traceback or a death is a loss.
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora import model_bytes, picture_model_bytes, pipeline_bytes
from journal import Journal

BUDGET, SLACK = 900 << 20, 200 << 20
PROGRAM = f"from totalcal.cli import main; import sys; sys.argv += ['--memory', '{BUDGET}']; main()"
SECONDS = 120  # of a case on the processor
PATIENCE = 1200  # of a case by the clock: on a busy machine, others have the processor
MUCH = 2 << 30  # bytes that a crafted file becomes
ROWS = MUCH // 32
COLUMNS = ("clear", "right", "traceback", "wrong", "died", "hung", "over budget")
LOSING = COLUMNS[2:]
Words = list[str]


def zeros(path: Path, **shapes: tuple[int, ...]) -> Path:
    """An .npz of arrays of zeros, a thousandth of what they are in memory."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        for name, shape in shapes.items():
            with bundle.open(f"{name}.npy", "w", force_zip64=True) as stream:
                form = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, form)
                left, block = 8 * int(np.prod(shape)), bytes(1 << 24)
                while left:
                    left -= stream.write(block[: min(left, len(block))])
    return path


def sparse(path: Path, *shape: int) -> Path:
    """An .npy that is a hole: nothing on the disk."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + 8 * int(np.prod(shape)))
    return path


def text(path: Path, *pieces: tuple[bytes, int]) -> Path:
    """Pieces of text, each so many times."""
    with path.open("wb") as file:
        for piece, times in pieces:
            block = piece * max(1, min(times, (1 << 20) // len(piece)))
            for _ in range(-(-times * len(piece) // len(block))):
                file.write(block)
    return path


def parquet(path: Path, names: str, rows: int) -> Path:
    """Columns of one value each, which are a few bytes in a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    group = pa.table({name: np.full(1 << 22, 1 / len(names)) for name in names})
    with pq.ParquetWriter(path, group.schema, compression="zstd") as file:
        for _ in range(rows >> 22):
            file.write_table(group)
    return path


def word(path: Path) -> Path:
    """A table with one word of half a gigabyte."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"size": [1.0], "colour": pa.array(["x" * (MUCH // 4)])})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    return path


def arrow(path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.feather

    table = pa.table({name: np.zeros(ROWS - 8) for name in "abcd"})
    pa.feather.write_feather(table, path, "zstd", chunksize=ROWS)
    return path


def picture(path: Path) -> Path:
    """Seven thousand by seven thousand pixels of one colour."""
    from PIL import Image

    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (7000, 7000), (9, 90, 200)).save(path)
    return path


def model(folder: Path, change: Callable[[dict[str, bytes]], None] | None = None) -> str:
    """A model file of four columns; some of its members are another's."""
    path = folder / "model.totalcal"
    content = model_bytes()
    if change is not None:
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            members = {name: bundle.read(name) for name in bundle.namelist()}
        change(members)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
            for name, each in members.items():
                bundle.writestr(name, each)
    else:
        path.write_bytes(content)
    return str(path)


def described(**changes: object) -> Callable[[dict[str, bytes]], None]:
    """Another description."""

    def change(members: dict[str, bytes]) -> None:
        members["description.json"] = json.dumps(json.loads(members["description.json"]) | changes).encode()

    return change


def promising(members: dict[str, bytes]) -> None:
    """A header of tensors that says a tensor is enormous."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    members["tensors.safetensors"] = len(header).to_bytes(8, "little") + header


def padded(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members[name] = members[name] + b" " * (MUCH // 2)

    return change


def predicts(make: Callable[[Path], Path], write: Callable[[Path], str] = model) -> Callable[[Path], Words]:
    return lambda folder: ["predict", write(folder), str(make(folder)), "-o", str(folder / "out.csv")]


def inspects(change: Callable[[dict[str, bytes]], None]) -> Callable[[Path], Words]:
    return lambda folder: ["inspect", model(folder, change)]


def scores(make: Callable[[Path], Path], *more: str) -> Callable[[Path], Words]:
    return lambda folder: ["score", str(make(folder)), *more]


def labelled(command: str, make: Callable[[Path], Path], *more: str) -> Callable[[Path], Words]:
    def words(folder: Path) -> Words:
        output = str(folder / f"out.{'totalcal' if command == 'memorise' else 'html'}")
        return [command, model(folder), str(make(folder)), "-o", output, *more]

    return words


def calibrates(make: Callable[[Path], Path]) -> Callable[[Path], Words]:
    def words(folder: Path) -> Words:
        rows, output = str(make(folder)), str(folder / "out.totalcal")
        return ["calibrate", model(folder), "--train", rows, "--held-out", rows, "-o", output]

    return words


def saved(content: Callable[[], bytes]) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "model.totalcal").write_bytes(content())
        return str(folder / "model.totalcal")

    return write


RAW, PICTURES = saved(pipeline_bytes), saved(picture_model_bytes)
WIDE = {"inputs": (1, MUCH // 8)}
LABELLED = {"inputs": (ROWS, 3), "labels": (ROWS,)}
CASES: dict[str, Callable[[Path], Words]] = {
    "predict, npz, one wide row": predicts(lambda folder: zeros(folder / "a.npz", **WIDE)),
    "predict, csv, wide header": predicts(lambda folder: text(folder / "a.csv", (b"a,", MUCH // 4))),
    "predict, csv, one line": predicts(
        lambda folder: text(folder / "a.csv", (b"a,b,c,d\n", 1), (b"1", MUCH))
    ),
    "predict, csv, an open quote": predicts(
        lambda folder: text(folder / "a.csv", (b'a,b,c,d\n"', 1), (b"1\n", MUCH // 2))
    ),
    "predict, csv, a quoted line": predicts(
        lambda folder: text(folder / "a.csv", (b'a,b,c,d\n"1"', 1), (b",1", MUCH // 4))
    ),
    "predict, csv, a raw line": predicts(
        lambda folder: text(folder / "a.csv", (b"size,colour\n", 1), (b"1,", MUCH // 4)), RAW
    ),
    "predict, parquet, a word": predicts(lambda folder: word(folder / "a.parquet"), RAW),
    "predict, arrow, one batch": predicts(lambda folder: arrow(folder / "a.arrow")),
    "predict, manifest, one line": predicts(
        lambda folder: text(folder / "a.csv", (b"path\n", 1), (b"a", MUCH // 4)), PICTURES
    ),
    "predict, manifest, many names": predicts(
        lambda folder: text(folder / "a.csv", (b"path\n", 1), (b"a\n", MUCH // 16)), PICTURES
    ),
    **{
        f"predict, {kind}": predicts(
            lambda folder, kind=kind: picture(folder / "a" / f"a.{kind}").parent, PICTURES
        )
        for kind in ("png", "jpg", "gif", "tiff", "webp", "bmp", "ppm")
    },
    "predict, description": predicts(
        lambda folder: zeros(folder / "a.npz", inputs=(2, 4)),
        lambda folder: model(folder, padded("description.json")),
    ),
    "predict, tensors": predicts(
        lambda folder: zeros(folder / "a.npz", inputs=(2, 4)), lambda folder: model(folder, promising)
    ),
    "predict, long tensors": predicts(
        lambda folder: zeros(folder / "a.npz", inputs=(2, 4)),
        lambda folder: model(folder, padded("tensors.safetensors")),
    ),
    "predict, classes": predicts(
        lambda folder: zeros(folder / "a.npz", inputs=(2, 4)),
        lambda folder: model(folder, described(classes=["x" * 100 + str(n) for n in range(1 << 20)])),
    ),
    "inspect, description": inspects(padded("description.json")),
    "inspect, brackets": inspects(
        lambda members: members.update({"description.json": b'{"x":[' + b"[]," * (MUCH // 16) + b"[]]}"})
    ),
    "score, npz": scores(lambda folder: zeros(folder / "a.npz", probabilities=(ROWS, 3), labels=(ROWS,))),
    "score, npz, no labels": scores(lambda folder: zeros(folder / "a.npz", probabilities=(ROWS, 4))),
    "score, npy": scores(lambda folder: sparse(folder / "a.npy", ROWS, 4)),
    "score, csv": scores(
        lambda folder: text(folder / "a.csv", (b"a,b,label\n", 1), (b"1,0,0\n", MUCH // 24))
    ),
    "score, csv, one line": scores(
        lambda folder: text(folder / "a.csv", (b"a,b,label\n", 1), (b"1,", MUCH // 4))
    ),
    "score, csv, wide header": scores(lambda folder: text(folder / "a.csv", (b"a,", MUCH // 16))),
    "score, parquet": scores(lambda folder: parquet(folder / "a.parquet", "abcd", ROWS), "--label", "d"),
    "score, ood": lambda folder: [
        *scores(lambda here: zeros(here / "a.npz", probabilities=(4, 3), labels=(4,)))(folder),
        "--ood",
        str(zeros(folder / "b.npz", probabilities=(ROWS, 3))),
    ],
    "calibrate, npz": calibrates(lambda folder: zeros(folder / "a.npz", **LABELLED)),
    "calibrate, csv": calibrates(
        lambda folder: text(folder / "a.csv", (b"a,b,c,d,label\n", 1), (b"1,1,1,1,1\n", MUCH // 24))
    ),
    "calibrate, parquet": calibrates(lambda folder: parquet(folder / "a.parquet", "abcd", ROWS)),
    "report, npz": labelled("report", lambda folder: zeros(folder / "a.npz", **LABELLED)),
    "report, parquet": labelled("report", lambda folder: parquet(folder / "a.parquet", "abcd", ROWS)),
    "audit, npz": labelled("audit", lambda folder: zeros(folder / "a.npz", **LABELLED)),
    "memorise, npz": labelled("memorise", lambda folder: zeros(folder / "a.npz", **LABELLED)),
    "memorise, parquet": labelled("memorise", lambda folder: parquet(folder / "a.parquet", "abcd", ROWS)),
    "export, example": lambda folder: [
        "export",
        model(folder),
        str(folder / "a.pt2"),
        "--example",
        str(zeros(folder / "a.npz", **WIDE)),
    ],
    "watch, csv, one line": lambda folder: [
        "watch",
        str(text(folder / "a.csv", (b"row,class\n", 1), (b"1,", MUCH // 4))),
        "--model",
        model(folder),
    ],
    "watch, arrow": lambda folder: ["watch", str(arrow(folder / "a.arrow")), "--model", model(folder)],
}


class End(NamedTuple):
    """How a case ended, what it said, the most that it held."""

    end: str
    said: str
    peak: int


def run_case(name: str) -> End:
    """The command of a case in a process of its own, within its budget."""
    with tempfile.TemporaryDirectory() as home:
        words = _made(name, Path(home))
        with tempfile.TemporaryFile() as said:
            command = [sys.executable, "-c", PROGRAM, *words]
            process = subprocess.Popen(command, stdout=said, stderr=said, cwd=home, preexec_fn=_limited)
            waiting = time.monotonic() + PATIENCE
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > waiting:
                    process.kill()
                    os.wait4(process.pid, 0)
                    return End("hung", f"more than {PATIENCE} s", 0)
                time.sleep(0.01)
            said.seek(0)
            _, status, used = ended  # its child's, too: that is where the work is done
            return _judged(os.waitstatus_to_exitcode(status), said.read().decode(), used.ru_maxrss * 1024)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def _made(name: str, folder: Path) -> Words:
    """The files of a case, made in a fork: what this takes would count as what the command takes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(CASES[name](folder)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        words: Words = json.loads(pipe.read())
    os.waitpid(child, 0)
    return words


def _judged(code: int, said: str, peak: int) -> End:
    if peak > BUDGET + SLACK:
        return End("over budget", said, peak)
    if "SIGKILL" in said and "the work ended by" in said:  # at the limit of its time
        return End("hung", said, peak)
    if code < 0 or "the work ended by" in said:
        return End("died", said, peak)
    if code not in (0, 2, 3) or "should not happen" in said or "Traceback" in said:
        return End("traceback", said, peak)
    return End("clear" if code == 2 else "right", said, peak)


def run(names: list[str], journal: Journal) -> None:
    for name in names:
        if name not in journal:
            end, said, peak = run_case(name)
            journal.note(name, end, said[-300:], peak)
            print(f"{end:12}{peak >> 20:6} MB  {name}: {said.strip()[-160:]}", file=sys.stderr, flush=True)


def summed(journal: Journal) -> tuple[Counter[str], list[str]]:
    """How the cases ended, and the lost ones."""
    ends = Counter(end for end, *_ in journal.ends.values())
    lost = [
        f"{end}: --only {name!r}: {said}" for name, (end, said, _) in journal.ends.items() if end in LOSING
    ]
    return ends, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", help="this case; may be repeated")
    parser.add_argument("--journal", type=Path, help="a file that remembers what was done, for going on")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    journal = Journal(chosen.journal)
    run(chosen.only or list(CASES), journal)
    ends, lost = summed(journal)
    print(dict(ends), *lost, sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
