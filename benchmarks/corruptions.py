"""How fast corrupting is, next to the plain way, one image at a time: python benchmarks/corruptions.py

All sides take turns and the median counts, so that a busy machine slows them alike. CPU seconds, one thread.
The plain way is that of the original program, from PIL images to arrays with NumPy's legacy generator; with
--lean it gets arrays and NumPy's newer generator, which makes the cheap types up to twice as fast.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import cv2
import numpy as np
import torch
from interleaved import spread
from numpy.typing import NDArray
from per_image_corruptions import PerImage
from PIL import Image
from skimage import data
from skimage.util import view_as_windows

from totalcal_lab.corruptions import CORRUPTIONS, SEVERITIES, corrupt, corrupted_blocks
from totalcal_lab.corruptions.kernels import BLOCK
from totalcal_lab.corruptions.weather import drawn

TARGETS = dict.fromkeys(CORRUPTIONS, 8.0) | dict.fromkeys(
    ["gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "spatter", "jpeg_compression"], 3.0
)
TARGETS["pixelate"] = 1.5
WHOLE_JOB_TARGET = 40.0
WHOLE_JOB = 10_000  # images, of every type and severity

# Rates known of the original program, images a CPU-second at severity 3: a reference that is much slower
# than this would flatter us.
KNOWN = {
    "gaussian_noise": 7105,
    "shot_noise": 3430,
    "impulse_noise": 5454,
    "defocus_blur": 3191,
    "glass_blur": 88,
    "motion_blur": 588,
    "zoom_blur": 286,
    "snow": 432,
    "frost": 163,
    "fog": 1359,
    "brightness": 1654,
    "contrast": 8415,
    "elastic_transform": 1245,
    "pixelate": 17103,
    "jpeg_compression": 4299,
    "speckle_noise": 6384,
    "gaussian_blur": 4215,
    "spatter": 1927,
    "saturate": 1607,
}
KNOWN_AT = 3
FAIR = 0.7

Work = Callable[[], object]


class Times(NamedTuple):
    """Seconds an image; nan where a package fails."""

    plain: float
    batched: float
    peer: float


def photographs(count: int, side: int) -> NDArray[np.uint8]:
    """Pieces of the photographs that come with scikit-image."""
    pieces = [
        view_as_windows(photograph, (side, side, 3), step=7).reshape(-1, side, side, 3)
        for photograph in (data.astronaut(), data.chelsea(), data.coffee())
    ]
    return np.random.default_rng(0).permutation(np.concatenate(pieces))[:count]


def frost_files(folder: Path, side: int) -> list[Path]:
    """The drawn textures at the size of the original's photographs."""
    files = [folder / f"frost{number}.png" for number in range(1, 6)]
    for file, texture in zip(files, drawn(side), strict=True):
        cv2.imwrite(str(file), cv2.resize(texture.numpy()[..., ::-1], (0, 0), fx=5, fy=5))
    return files


def imagecorruptions_or_nothing(type: str, severity: int, images: NDArray[np.uint8]) -> Work | None:
    """The package imagecorruptions (at ImageNet's strength), if it is installed and can do this type."""
    try:
        from imagecorruptions import corrupt as corrupt_one

        corrupt_one(images[0], severity=severity, corruption_name=type)
    except Exception:  # its release fails in many ways with current NumPy and setuptools
        return None
    return lambda: [corrupt_one(image, severity=severity, corruption_name=type) for image in images]


def seconds(work: Work) -> float:
    start = process_time()
    work()
    return process_time() - start


def one_by_one(type: str, severity: int, images: NDArray[np.uint8], files: list[Path], lean: bool) -> Work:
    parameters = CORRUPTIONS[type].severities[severity - 1]
    if lean:
        arrays = PerImage(np.random.default_rng(0), files)
        return lambda: [arrays.on_array(type, image, parameters) for image in images]
    plain, pictures = PerImage(np.random.RandomState(0), files), [Image.fromarray(image) for image in images]
    return lambda: [plain.on_pil(type, picture, parameters) for picture in pictures]


def measure(
    type: str, severity: int, images: NDArray[np.uint8], files: list[Path], options: argparse.Namespace
) -> NDArray[np.float64]:
    """Rounds × candidates, interleaved; one image at a time only on the first few."""
    few = options.few
    plain = one_by_one(type, severity, images[:few], files, options.lean)
    peer = imagecorruptions_or_nothing(type, severity, images[:few])
    corrupt(images[:1], type, severity)  # builds the tables that all blocks share
    rows = [
        (
            seconds(plain) / few,
            seconds(lambda: corrupt(images, type, severity)) / len(images),
            seconds(peer) / few if peer else float("nan"),
        )
        for _ in range(options.rounds)
    ]
    return np.array(rows)


def whole_job(types: list[str], side: int) -> float:
    """CPU seconds to corrupt all images of the job, a block at a time."""
    images = photographs(WHOLE_JOB, side)
    start = process_time()
    for type in types:
        for severity in SEVERITIES:
            for _ in corrupted_blocks(images, type, severity):
                pass
    return process_time() - start


def compare(images: NDArray[np.uint8], files: list[Path], options: argparse.Namespace) -> None:
    """One line per type and one for all of them, with a verdict on us and one on the reference."""
    print(
        "| images a CPU-second | one by one | batched | ratio (quartiles) | aim | | of original | | ", end=""
    )
    print("imagecorruptions |")
    print("|---|---|---|---|---|---|---|---|---|")
    total, known, at_known = np.zeros((options.rounds, 3)), 0.0, 0.0
    for type in options.types:
        each = np.array([measure(type, severity, images, files, options) for severity in SEVERITIES])
        times, plain = each.mean(axis=0), float(np.median(each[SEVERITIES.index(KNOWN_AT)], axis=0)[0])
        print(line(type, times, TARGETS[type], 1 / KNOWN[type] / plain), flush=True)
        total, known, at_known = total + times, known + 1 / KNOWN[type], at_known + plain
    print(line("**all of them**", total, WHOLE_JOB_TARGET, known / at_known))
    print(f"\nOf original: the rate one by one at severity {KNOWN_AT} over the known one, fair from {FAIR}.")
    job = WHOLE_JOB * len(SEVERITIES)
    print(f"{WHOLE_JOB:,} images × {len(options.types)} × {len(SEVERITIES)}, from these rates: ", end="")
    plain, batched, _ = np.median(total, axis=0) * job
    print(f"{plain:,.0f} CPU-seconds one by one, {batched:,.0f} batched.")


def line(name: str, rounds: NDArray[np.float64], target: float, of_the_original: float) -> str:
    """`rounds` has the seconds an image of every round, mean over the severities."""
    times, ratios = Times(*np.median(rounds, axis=0)), list(rounds[:, 0] / rounds[:, 1])
    met = "met" if median(ratios) >= target else "MISSED"
    fair = "fair" if of_the_original >= FAIR else "SLOW"
    peer = "–" if np.isnan(times.peer) else f"{1 / times.peer:,.0f}"
    rates = f"{1 / times.plain:,.0f} | {1 / times.batched:,.0f} | {spread(ratios, 1)}"
    return f"| {name} | {rates} | {target:g} | {met} | {of_the_original:.2f} | {fair} | {peer} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1024, help="images of a batched round")
    parser.add_argument("--few", type=int, default=64, help="images of a round one at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--lean", action="store_true", help="one by one on arrays, with a faster generator")
    parser.add_argument("--whole", action="store_true", help="time the whole batched job instead")
    parser.add_argument("--types", nargs="+", default=list(CORRUPTIONS), choices=list(CORRUPTIONS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    if options.whole:
        print(f"{whole_job(options.types, options.side):.1f} CPU-seconds batched for {WHOLE_JOB:,} images")
        return
    images = photographs(options.images, options.side)
    for type in CORRUPTIONS:  # the allocator keeps what it has once handed out: the first type is no slower
        corrupt(images[:BLOCK], type, SEVERITIES[0])
    with TemporaryDirectory() as folder:
        compare(images, frost_files(Path(folder), options.side), options)


if __name__ == "__main__":
    main()
