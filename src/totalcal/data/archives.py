"""Unpacking what came from elsewhere: plain files only, inside the target only, no more bytes than agreed."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from totalcal.errors import DataError

MAX_MEMBERS = 250_000
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError)


class Member(NamedTuple):
    """A regular file of an archive; `stream` is good until the next one is asked for."""

    name: str
    size: int
    stream: IO[bytes]


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
    try:
        for count, member in enumerate(_members(archive), start=1):
            _refuse_escape(archive, member.name)
            if count > MAX_MEMBERS:
                raise DataError(f"{archive.name} holds more than {MAX_MEMBERS} files: refused.")
            if not member.name.startswith(members):
                continue
            total += member.size
            if total > max_bytes:
                raise DataError(f"{archive.name} unpacks to more than {max_bytes} bytes: refused.")
            _write(member, target / member.name.removeprefix(strip))
    except _DAMAGE as error:
        raise DataError(f"{archive.name} is damaged: {error}") from error


def _members(archive: Path) -> Iterator[Member]:
    return _zip_members(archive) if archive.suffix == ".zip" else _tar_members(archive)


def _tar_members(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive) as tar:
        for info in tar:
            if info.isdir():
                continue
            stream = tar.extractfile(info) if info.isreg() else None
            if stream is None:
                raise DataError(f"{archive.name}: {info.name!r} is no regular file: refused.")
            yield Member(info.name, info.size, stream)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            if info.is_dir():
                continue
            with bundle.open(info) as stream:
                yield Member(info.filename, info.file_size, stream)


def _refuse_escape(archive: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts:
        raise DataError(f"{archive.name}: {name!r} points outside of the archive: refused.")


def _write(member: Member, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(member.stream, file)
    if path.stat().st_size != member.size:
        raise DataError(f"{member.name} has {path.stat().st_size} bytes, announced were {member.size}.")
