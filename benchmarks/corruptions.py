"""How fast corrupting is, next to the plain way, one image at a time: python benchmarks/corruptions.py

Both sides take turns and the median counts, so that a busy machine slows both alike. One thread.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from per_image_corruptions import PerImage
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table
from skimage import data
from skimage.util import view_as_windows

from totalcal.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from totalcal.corruptions.textures import drawn

TARGETS = dict.fromkeys(CORRUPTIONS, 8.0) | dict.fromkeys(
    ["gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "spatter", "jpeg_compression"], 3.0
)
TARGETS["pixelate"] = 1.5
WHOLE_JOB_TARGET = 20.0

Seconds = float


def photographs(count: int, side: int) -> NDArray[np.uint8]:
    """Pieces of the photographs that come with scikit-image."""
    pieces = [
        view_as_windows(photograph, (side, side, 3), step=11).reshape(-1, side, side, 3)
        for photograph in (data.astronaut(), data.chelsea(), data.coffee())
    ]
    return np.random.default_rng(0).permutation(np.concatenate(pieces))[:count]


def frost_files(folder: Path, side: int) -> list[Path]:
    """The drawn textures at the size of the benchmark's photographs."""
    files = [folder / f"frost{number}.png" for number in range(1, 6)]
    for file, texture in zip(files, drawn(side), strict=True):
        cv2.imwrite(str(file), cv2.resize(texture.numpy()[..., ::-1], (0, 0), fx=5, fy=5))
    return files


def seconds(work: Callable[[], object]) -> Seconds:
    start = process_time()
    work()
    return process_time() - start


def measure(
    type: str, severity: int, images: NDArray[np.uint8], few: int, rounds: int, plain: PerImage
) -> tuple[Seconds, Seconds]:
    """Seconds an image, the plain way (on the first `few`) and batched: medians of interleaved rounds."""
    parameters = CORRUPTIONS[type].severities[severity - 1]
    pictures = [Image.fromarray(image) for image in images[:few]]
    corrupt(images[:1], type, severity)  # builds the tables that all blocks share
    pairs = [
        (
            seconds(lambda: [plain.apply(type, picture, parameters) for picture in pictures]) / few,
            seconds(lambda: corrupt(images, type, severity)) / len(images),
        )
        for _ in range(rounds)
    ]
    one_by_one, batched = zip(*pairs, strict=True)
    return median(one_by_one), median(batched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1024, help="images a batched round")
    parser.add_argument("--few", type=int, default=64, help="images a round of the plain way")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--types", nargs="+", default=list(CORRUPTIONS), choices=list(CORRUPTIONS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    images = photographs(arguments.images, arguments.side)
    with TemporaryDirectory() as folder:
        plain = PerImage(0, frost_files(Path(folder), arguments.side))
        times = {
            type: np.mean(
                [
                    measure(type, severity, images, arguments.few, arguments.rounds, plain)
                    for severity in SEVERITIES
                ],
                axis=0,
            )
            for type in track(arguments.types)
        }
    report(times)


def report(times: dict[str, NDArray[np.float64]]) -> None:
    table = Table(
        "corruption", "one by one / s", "batched / s", "ratio", "target", "", title="images a CPU-second"
    )
    for type, (one_by_one, batched) in times.items():
        table.add_row(type, *row(one_by_one, batched, TARGETS[type]))
    one_by_one, batched = np.sum(list(times.values()), axis=0)
    table.add_section()
    table.add_row("all of them", *row(one_by_one, batched, WHOLE_JOB_TARGET))
    Console().print(table)


def row(one_by_one: Seconds, batched: Seconds, target: float) -> tuple[str, ...]:
    ratio = one_by_one / batched
    verdict = "met" if ratio >= target else "missed"
    return f"{1 / one_by_one:,.0f}", f"{1 / batched:,.0f}", f"{ratio:.1f}", f"{target:g}", verdict


if __name__ == "__main__":
    main()
