"""Is this the file it should be? Digests of files, of what is in them, and of folders of small files.

Compressed copies of one file differ, as do the dates in a `.mat` header; so most digests are taken of the
content and not of the container.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from totalcal.data.description import RawFile
from totalcal.errors import DataError, IntegrityError

CHUNK = 1 << 20
MAX_CONTENT = 1 << 30  # what a compressed file may grow to


def resolve(folder: Path, raw: RawFile) -> Path:
    """Where the file is: as named, or already uncompressed."""
    path = folder / raw.path
    return path if path.exists() or path.suffix != ".gz" else path.with_suffix("")


def check(folder: Path, raw: RawFile) -> str:
    """The digest by which the file is known, or an error that says what was expected and what was found."""
    path = resolve(folder, raw)
    if not path.exists():
        raise IntegrityError(f"{path} is missing. Do: totalcal data fetch")
    found = ["no checksum is known"]
    for expected in raw.digests:
        found.append(digest(path, expected.partition(":")[0]))
        if found[-1] == expected:
            return expected
    if raw.digests:
        raise IntegrityError(
            f"{path} is not the file it should be: expected {' or '.join(raw.digests)}, "
            f"found {', '.join(found[1:])}. Delete it and fetch the set again: totalcal data fetch"
        )
    return found[0]


def digest(path: Path, kind: str) -> str:
    """`kind:value` of a file or folder; a file that cannot even be read has the value `unreadable`."""
    try:
        return f"{kind}:{DIGESTS[kind](path)}"
    except (OSError, EOFError, zlib.error, DataError) as error:
        return f"{kind}:unreadable ({error})"


def content(path: Path) -> Iterator[bytes]:
    """A file's bytes, uncompressed where the name ends in .gz, and no more of them than MAX_CONTENT."""
    total = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        while block := stream.read(CHUNK):
            total += len(block)
            if total > MAX_CONTENT:
                raise DataError(f"{path} holds more than {MAX_CONTENT} bytes: refused.")
            yield block


def _md5_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _sha256_of_content(path: Path) -> str:
    total = hashlib.sha256()
    for block in content(path):
        total.update(block)
    return total.hexdigest()


def _sha256_of_matlab_arrays(path: Path) -> str:
    """Of the images as [n, height, width, channels] bytes, then the labels as the file has them."""
    from totalcal.data.readers.svhn import matlab_arrays

    images, labels = matlab_arrays(path)
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def _sha256_of_listing(path: Path) -> str:
    """Of a line `sha256  name` for each file of a folder, sorted."""
    lines = sorted(f"{_sha256_of_content(file)}  {file.name}\n" for file in path.iterdir())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256_of_texts(path: Path) -> str:
    """Of the digests of a folder's files, sorted: whatever the files are called."""
    lines = sorted(_sha256_of_content(file) for file in path.iterdir())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _number_of_files(path: Path) -> str:
    return str(sum(1 for _ in path.iterdir()))


DIGESTS: Mapping[str, Callable[[Path], str]] = MappingProxyType(
    {
        "md5": _md5_of_file,
        "sha256": _sha256_of_content,
        "arrays": _sha256_of_matlab_arrays,
        "listing": _sha256_of_listing,
        "texts": _sha256_of_texts,
        "files": _number_of_files,
    }
)
