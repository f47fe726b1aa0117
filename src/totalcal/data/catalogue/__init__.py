"""The data sets by name, an entry each: files, digests, addresses, packages, reader, known figures, terms."""

from collections.abc import Mapping
from types import MappingProxyType

from totalcal.data.catalogue.colour import CIFAR_10, CIFAR_10_C, CIFAR_100, SVHN, TINY_IMAGENET
from totalcal.data.catalogue.grey import FASHION_MNIST, KMNIST, MNIST
from totalcal.data.catalogue.other import DIGITS, GAUSSIANS, IMDB, IRIS, LETTER_PICTURES, RANDOM_TOKENS
from totalcal.data.description import DataSet

_SETS = (
    FASHION_MNIST, MNIST, KMNIST, CIFAR_10, CIFAR_100, SVHN, TINY_IMAGENET, CIFAR_10_C, IMDB,
    IRIS, DIGITS, LETTER_PICTURES, RANDOM_TOKENS, GAUSSIANS,
)  # fmt: skip

CATALOGUE: Mapping[str, DataSet] = MappingProxyType({dataset.name: dataset for dataset in _SETS})
