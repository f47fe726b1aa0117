"""`totalcal predict` against the model alone: a table of 100,000 × 20, one thread.

    python benchmarks/predicting.py [--rounds 5] [--rows 100000]

The model alone makes its predictions of rows that are in memory, chunk by chunk: `probabilities` is
`saved.predict(rows).probabilities`, `answers` all that a line of the table says. `probabilities, 256 rows at
a time` is what totalcal 0.1 did between reading and writing. All take turns in one process, and CPU time is
counted; a ratio of throughputs is the median over the rounds.

    python benchmarks/predicting.py --memory 10000000 [--kind parquet|npz]

The peak memory of a process that does nothing but predict so many rows of four columns, and, for comparison,
of one that predicts a thousand.

    python benchmarks/predicting.py --pictures 1000 [--rounds 3]

A folder of so many JPEGs of 500 × 375 for a small convolutional net of 32 × 32, decoded in the process itself
and by one or two workers, in turns. Seconds by the clock, and CPU seconds of all processes together, each
divided by those without workers in the same round.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import torch
from interleaved import ratios, spread
from PIL import Image

from totalcal import etp, softmax
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.files.predicting.answers import answers
from totalcal.files.predicting.stream import predict_file, usual_chunk
from totalcal.files.saved import load, save
from totalcal.nets import mlp, small_convnet

COLUMNS, CLASSES = 20, 3
PAIRS = [
    ("rows.csv", "out.csv"),
    ("rows.parquet", "out.csv"),
    ("rows.parquet", "out.parquet"),
    ("rows.arrow", "out.arrow"),
    ("rows.npz", "out.csv"),
    ("rows.npz", "out.parquet"),
]
AIMS = {".csv": 0.7, ".parquet": 0.7, ".arrow": 0.7, ".npz": 0.9}
EARLIER = "probabilities, 256 rows at a time"


def written(folder: Path, rows: int) -> np.ndarray:
    """The same numbers as CSV (six digits), Parquet, Arrow and .npz."""
    text = folder / "rows.csv"
    header = [f"column {place}" for place in range(COLUMNS)]
    numbers = np.random.default_rng(0).normal(size=(rows, COLUMNS))
    np.savetxt(text, numbers, "%.6g", ",", header=",".join(header), comments="")
    numbers = np.loadtxt(text, delimiter=",", skiprows=1)
    table = pa.table(dict(zip(header, numbers.T, strict=True)))
    pq.write_table(table, folder / "rows.parquet")
    with pa.ipc.new_file(folder / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    np.savez(folder / "rows.npz", inputs=numbers)
    return numbers


def candidates(folder: Path, rows: int) -> dict[str, Callable[[], object]]:
    numbers = written(folder, rows)
    model = folder / "it.totalcal"
    save(etp(mlp(COLUMNS, CLASSES), CLASSES), model, preprocessing=Preprocessing.fitted(numbers))
    saved = load(model)

    def alone(answer: Callable[[np.ndarray], object], chunk: int) -> Callable[[], object]:
        return lambda: [answer(numbers[start : start + chunk]) for start in range(0, rows, chunk)] and None

    def command(inputs: str, output: str) -> Callable[[], object]:
        def run() -> None:
            target = folder / "made"
            target.mkdir()
            predict_file(model, folder / inputs, target / output)
            shutil.rmtree(target)

        return run

    usual = usual_chunk(COLUMNS)
    return {
        EARLIER: alone(lambda part: saved.predict(part).probabilities, 256),
        "probabilities": alone(lambda part: saved.predict(part).probabilities, usual),
        "answers": alone(lambda part: answers(saved, part), usual),
    } | {f"{inputs} → {output}": command(inputs, output) for inputs, output in PAIRS}


def pooled(count: int, rounds: int) -> None:
    """A table of what workers win, printed."""
    draw = np.random.default_rng(0)
    tried = (0, 1, 2)
    clock: dict[str, list[float]] = {str(workers): [] for workers in tried}
    spent: dict[str, list[float]] = {str(workers): [] for workers in tried}
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name) / "pictures", Path(name) / "it.totalcal"
        folder.mkdir()
        for place in range(count):
            coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{place:05}.jpg", quality=90)
        steps = PictureSteps((32, 32))
        given = Preprocessing(steps.shape, torch.tensor(0.5), torch.tensor(0.25), pictures=steps)
        save(softmax(small_convnet(CLASSES, steps.shape), CLASSES), model, preprocessing=given)
        for index in range(-1, rounds):
            for workers in tried:
                before, started = os.times(), time.perf_counter()
                predict_file(model, folder, Path(name) / "out.csv", workers=workers)
                seconds, after = time.perf_counter() - started, os.times()
                (Path(name) / "out.csv").unlink()
                if index >= 0:  # the first round warms up
                    clock[str(workers)].append(seconds)
                    spent[str(workers)].append(sum(after[:4]) - sum(before[:4]))
    print("| workers | pictures per second | clock / none | CPU / none |\n|---|---|---|---|")
    for name, seconds_each in clock.items():
        rate = count / statistics.median(seconds_each)
        figures = " | ".join(spread(ratios(times, name, "0"), digits=2) for times in (clock, spent))
        print(f"| {name} | {rate:.0f} | {figures} |")


def peak_memory(rows: int, kind: str) -> tuple[float, float]:
    """GB that a process takes at most to predict so many rows, and the CPU seconds that it takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(
            softmax(mlp(4, CLASSES), CLASSES),
            folder / "it.totalcal",
            preprocessing=Preprocessing.fitted(np.eye(4)),
        )
        _write_in_blocks(folder / f"rows.{kind}", rows)
        child = os.fork()
        if child == 0:
            program = "import sys; from pathlib import Path\n"
            program += "from totalcal.files.predicting.stream import predict_file\n"
            program += "predict_file(*map(Path, sys.argv[1:]))"
            output = "out.parquet" if kind == "parquet" else "out.csv"
            paths = [str(folder / each) for each in ("it.totalcal", f"rows.{kind}", output)]
            os.execv(sys.executable, [sys.executable, "-c", program, *paths])
        _, status, used = os.wait4(child, 0)
        assert status == 0
    return used.ru_maxrss / 1e6, used.ru_utime + used.ru_stime


def _write_in_blocks(path: Path, rows: int, block: int = 100_000) -> None:
    draw = np.random.default_rng(0)
    if path.suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive, archive.open("inputs.npy", "w", force_zip64=True) as file:
            about = {"descr": "<f8", "fortran_order": False, "shape": (rows, 4)}
            np.lib.format.write_array_header_1_0(file, about)
            for start in range(0, rows, block):
                file.write(draw.normal(size=(min(block, rows - start), 4)).tobytes())
        return
    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    make = pq.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    with make(path, schema) as writer:
        for start in range(0, rows, block):
            numbers = draw.normal(size=(4, min(block, rows - start))).round(5)
            writer.write_table(pa.table(list(numbers), schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--pictures", type=int)
    parser.add_argument("--kind", choices=("csv", "parquet", "npz"), default="csv")
    options = parser.parse_args()
    if options.memory:
        for rows in (1000, options.memory):
            peak, spent = peak_memory(rows, options.kind)
            print(f"{rows:,} rows of .{options.kind}: {peak:.2f} GB at most, {spent:.0f} CPU seconds")
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.pictures:
        pooled(options.pictures, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        tried = candidates(Path(folder), options.rows)
        times: dict[str, list[float]] = {name: [] for name in tried}
        for index in range(-1, options.rounds):
            for name, candidate in tried.items():
                started = time.process_time()
                candidate()
                if index >= 0:  # the first round warms up
                    times[name].append(time.process_time() - started)
    print(
        "| | rows per CPU second | / answers | / probabilities | / " + EARLIER + " |\n|---|---|---|---|---|"
    )
    for name, seconds in times.items():
        others = ("answers", "probabilities", EARLIER)
        shown = " | ".join(spread(ratios(times, other, name), digits=2) for other in others)
        print(f"| {name} | {options.rows / statistics.median(seconds):,.0f} | {shown} |")
    for inputs, output in PAIRS:
        name, aim = f"{inputs} → {output}", AIMS[Path(inputs).suffix]
        reached = statistics.median(ratios(times, EARLIER, name))
        print(f"\n{name} / {EARLIER}: {reached:.2f}, aim ≥ {aim}: {'met' if reached >= aim else 'MISSED'}")


if __name__ == "__main__":
    main()
