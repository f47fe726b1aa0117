"""Unpacking what came from elsewhere: plain files only, inside the target only, no more bytes than agreed."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from totalcal.errors import DataError
from totalcal.reading import unreadable

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
    """A header that is no longer than a header needs to be: tarfile reads the whole of it into memory."""

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
                raise DataError(f"{archive.name}: {info.name[:200]!r} is no regular file: refused.")
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
