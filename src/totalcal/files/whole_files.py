"""Files that are there whole or not at all whenever a process is killed; their digests, and locks on them."""

import errno
import glob
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

_ABANDONED = 3600.0  # seconds without a byte more
PATIENCE = 6.0  # seconds: the workers of a killed process notice it within five, and hold its lock until then


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream to write. `path` changes when all of it is on the disk, and not at all if the block fails.

    The file has the rights that any new file has, which those of `tempfile` do not: others may read it.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no folder to write to", str(path.parent))
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.*"):  # what killed processes began
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself survives a power cut; not every system can open a folder
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_whole(path: Path, content: str) -> None:
    """A text file, all of it or none."""
    with whole_file(path) as file:
        file.write(content.encode())


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive(lock: Path, busy: Exception) -> Iterator[None]:
    """Hold a lock file, or raise `busy` where another process holds it."""
    held = FileLock(lock, timeout=PATIENCE)
    lock.touch()  # where there can be no such file, the system says why; a lock would wait for it
    try:
        held.acquire()
    except Timeout as error:
        raise busy from error
    try:
        yield
    finally:
        held.release()
