"""IMDB's reviews (aclImdb: one folder of text files per class) as the tokens that the LSTM reads.

Appendix B.3: lower case, letters and digits, no stop words, the 1000 commonest words. Token 0 is padding and
stands on the left; token 1 is the commonest word. What is not in the vocabulary is left out, and a long text
loses its end.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from totalcal.data import Arrays
from totalcal.errors import DataError
from totalcal.files import read_text

LENGTH = 500
NUM_WORDS = 1000
LABELS = {"neg": 0, "pos": 1}
MAX_TEXT_BYTES = 1_000_000

_LINE_BREAK = re.compile(r"<br\s*/?>")
_WORD = re.compile(r"[a-z0-9]+")


def read_imdb(folder: Path, split: str) -> Arrays:
    """Tokens [n, 500]: the vocabulary is that of the training reviews, for both splits."""
    texts, labels = read_reviews(folder, split)
    words = vocabulary(texts if split == "train" else read_reviews(folder, "train")[0])
    return Arrays(encode(texts, words), np.array(labels, dtype=np.int64))


def read_reviews(folder: Path, split: str) -> tuple[list[str], list[int]]:
    """Texts and labels, the negative ones first, each class by the number that begins the file name."""
    texts: list[str] = []
    labels: list[int] = []
    for name, label in LABELS.items():
        files = sorted((folder / "aclImdb" / split / name).glob("*.txt"), key=_number)
        if not files:
            raise DataError(f"{folder / 'aclImdb' / split / name} holds no reviews (*.txt).")
        texts.extend(read_text(file, MAX_TEXT_BYTES) for file in files)
        labels.extend([label] * len(files))
    return texts, labels


def _number(path: Path) -> int:
    first = path.stem.partition("_")[0]
    if not (first.isascii() and first.isdecimal() and len(first) < 20):
        raise DataError(f"{path}: a review's file name begins with its number.")
    return int(first)


def words_of(text: str) -> list[str]:
    """The words of a text that carry meaning; apostrophes are dropped, anything else parts words.

    >>> words_of("It isn't <br />a GREAT film: 7/10!")
    ['isnt', 'great', 'film', '7', '10']
    """
    plain = _LINE_BREAK.sub(" ", text.lower()).replace("'", "")
    return [word for word in _WORD.findall(plain) if word not in _stop_words()]


def vocabulary(texts: Iterable[str], size: int = NUM_WORDS) -> dict[str, int]:
    """The `size` commonest words, numbered from 1; among equals the alphabet decides.

    >>> vocabulary(["good bad good", "bad good ugly"], size=2)
    {'good': 1, 'bad': 2}
    """
    counts = Counter(word for text in texts for word in words_of(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: rank for rank, word in enumerate(ranked[:size], start=1)}


def encode(texts: Sequence[str], words: Mapping[str, int], length: int = LENGTH) -> NDArray[np.int64]:
    """[texts, length] of tokens, padded on the left.

    >>> encode(["ugly good bad"], {"good": 1, "bad": 2}, length=4)
    array([[0, 0, 1, 2]])
    """
    tokens = np.zeros((len(texts), length), dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        known = [words[word] for word in words_of(text) if word in words][:length]
        row[length - len(known) :] = known
    return tokens


def shorten(tokens: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The same texts cut after `length` words, as if encoded so.

    >>> shorten(np.array([[0, 5, 6, 7], [0, 0, 0, 8]]), 2)
    array([[5, 6],
           [0, 8]])
    """
    width = tokens.shape[1]
    if length >= width:
        return tokens
    padding = (tokens == 0).sum(axis=1)
    starts = np.minimum(padding, width - length)
    return np.take_along_axis(tokens, starts[:, None] + np.arange(length), axis=1)


def shuffle_words(tokens: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Each text with its words in another order and its padding where it was.

    >>> sorted(shuffle_words(np.array([[0, 5, 6, 7]]), seed=0)[0].tolist())
    [0, 5, 6, 7]
    """
    ranks = np.random.default_rng(seed).random(tokens.shape)
    ranks[tokens == 0] = -1.0  # padding sorts to the left, where it stands
    return np.take_along_axis(tokens, ranks.argsort(axis=1, kind="stable"), axis=1)


def random_tokens(count: int = 25_000, length: int = LENGTH, seed: int = 0) -> Arrays:
    """The paper's OOD set for IMDB: tokens uniform in [1, 1000]; the label is 0, for want of any.

    >>> random_tokens(count=2, length=3).inputs.shape
    (2, 3)
    """
    draw = np.random.default_rng(seed)
    return Arrays(draw.integers(1, NUM_WORDS + 1, size=(count, length)), np.zeros(count, dtype=np.int64))


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
