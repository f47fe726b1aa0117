"""IMDB reviews (aclImdb): a folder of text files a class, turned into the tokens that the LSTM reads."""

from pathlib import Path

import numpy as np

from totalcal.data.arrays import Arrays
from totalcal.data.text import encode, vocabulary
from totalcal.errors import DataError

LABELS = {"neg": 0, "pos": 1}
MAX_TEXT_BYTES = 1_000_000


def read_reviews(folder: Path, split: str) -> tuple[list[str], list[int]]:
    """Texts and labels, the negative ones first, each class by the number that begins the file name."""
    texts: list[str] = []
    labels: list[int] = []
    for name, label in LABELS.items():
        files = sorted((folder / "aclImdb" / split / name).glob("*.txt"), key=_number)
        if not files:
            raise DataError(f"{folder / 'aclImdb' / split / name} holds no reviews (*.txt).")
        texts.extend(_text(file) for file in files)
        labels.extend([label] * len(files))
    return texts, labels


def read_imdb(folder: Path, split: str) -> Arrays:
    """Tokens [n, 500]: the vocabulary is that of the training reviews, for both splits."""
    texts, labels = read_reviews(folder, split)
    words = vocabulary(texts if split == "train" else read_reviews(folder, "train")[0])
    return Arrays(encode(texts, words), np.array(labels, dtype=np.int64))


def _number(path: Path) -> int:
    first = path.stem.partition("_")[0]
    if not first.isdecimal():
        raise DataError(f"{path}: a review's file name begins with its number.")
    return int(first)


def _text(path: Path) -> str:
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise DataError(f"{path} is larger than {MAX_TEXT_BYTES} bytes: that is no review.")
    return path.read_text(encoding="utf-8")
