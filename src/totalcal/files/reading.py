"""Files that others wrote: one way to open each kind, with limits on what they may ask for.

| kind | function |
|---|---|
| text | `read_text` |
| CSV | `csv_records` |
| Arrow | `check_arrow`, before pyarrow |
| JSON | `read_json`, `parse_json` |
| `.npz`, `.npy` | `read_npz`, `npz_names`, `npz_shapes`, `read_npy`, `map_npy` |
| pictures | `read_picture` |
| any other bytes | `read_bytes`, `stream_bytes`, `open_regular`, and `unreadable` around the decoder |
| a number or a column of a table | `number`, `column_places` |

Each ends in the right answer or in an `UnreadableFileError` that names the file and says what to do. What a
header promises is held against the bytes that are there before anything is allocated. No code in a file is
ever run.
"""

import csv
import errno
import gzip
import io
import json
import os
import re
import stat
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

from totalcal.errors import InputError, MissingExtraError, TotalcalError, UnreadableFileError
from totalcal.files.budget import check_room, room

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    StrPath = str | os.PathLike[str]

ARROW_MAGIC: Final = b"ARROW1"
MOST_AXES: Final = 32
MOST_BATCH: Final = 1 << 30
MOST_BYTES: Final = 1 << 32
MOST_TEXT: Final = 1 << 28
MOST_DEPTH: Final = 64  # of lists in lists
MOST_DIGITS: Final = 40  # of an integer: 64 bits take 20
MOST_MEMBERS: Final = 10_000
MOST_PIXELS: Final = 50_000_000
PICTURES: Final = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
BYTES_PER_PIXEL: Final = 12  # three copies of four bytes: decoded, turned, brought to the mode
MOST_SCANS: Final = 100  # of a JPEG, which has ten: each takes 75 bytes, and goes through all pixels
LARGE_PICTURE: Final = 16_000_000  # pixels: beyond them JPEGs are decoded at a half, a quarter or an eighth
_BYTES_PER_VALUE: Final = 80  # of JSON, an empty list among others; what is smaller has no commas
_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"
_ORIENTATION: Final = 0x0112  # of EXIF
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")  # another in every process
_CHUNK: Final = 1 << 20
_TOO_LARGE: Final = "{} needs more memory than there is. Free some, or split the file if it is sound."
_DEFLATE: Final = 1032  # no deflated byte becomes more than that
_NUMBERS: Final = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}


@contextmanager
def unreadable(path: "StrPath", what: str, remedy: str = "Make or fetch it again.") -> Iterator[None]:
    """Around a decoder: whatever it raises becomes one error that names the file.

    Decoders of other people's formats raise whatever the damage happens to cause, so all of it is caught here
    and nowhere else. Our own errors pass.

    Args:
        path: The file.
        what: What it should be, such as "a JPEG picture".
        remedy: What the user can do.

    Raises:
        UnreadableFileError: In place of whatever the block raises.

    Example:
        >>> with unreadable("a.bin", "a number"):
        ...     int("x")
        Traceback (most recent call last):
        totalcal.errors.UnreadableFileError: a.bin cannot be read as a number (invalid literal for int() ...
    """
    try:
        yield
    except TotalcalError:
        raise
    except FileNotFoundError as error:
        raise UnreadableFileError(f"there is no file {path}.") from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise UnreadableFileError(_TOO_LARGE.format(path)) from error
        reason = error.strerror or _ADDRESS.sub("", str(error)) or type(error).__name__
        raise UnreadableFileError(f"{path} cannot be read as {what} ({reason}). {remedy}") from error
    except MemoryError as error:
        raise UnreadableFileError(_TOO_LARGE.format(path)) from error
    except Exception as error:
        reason = " ".join(_ADDRESS.sub("", str(error)).split())[:200] or type(error).__name__
        raise UnreadableFileError(f"{path} cannot be read as {what} ({reason}). {remedy}") from error


def open_regular(path: "StrPath") -> BinaryIO:
    """A file to read: from a pipe a reader might wait for ever, and a device never ends.

    Raises:
        UnreadableFileError: If it is no regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)  # a pipe that nobody writes to is opened at once
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableFileError(f"{path} is no regular file. Copy what it gives into one.")
    return os.fdopen(descriptor, "rb")


def stream_bytes(path: "StrPath", most: int = MOST_BYTES) -> Iterator[bytes]:
    """The bytes of a file in pieces, uncompressed where its name ends in .gz; `most` after that."""
    total, zipped = 0, Path(path).suffix == ".gz"
    with (
        unreadable(path, "a gzip file" if zipped else "a file"),
        open_regular(path) as file,
        gzip.open(file) if zipped else file as stream,
    ):
        if zipped and not Path(path).stat().st_size:  # to gzip, nothing at all is a sound file of nothing
            raise EOFError("it is empty")
        while block := stream.read(_CHUNK):
            total += len(block)
            if total > most:
                raise UnreadableFileError(f"{path} holds more than {most} bytes: refused.")
            yield block


def read_bytes(path: "StrPath", most: int = MOST_BYTES) -> bytes:
    """All bytes of a file, uncompressed where its name ends in .gz, if there are no more than `most`."""
    return b"".join(stream_bytes(path, most))


def read_text(path: "StrPath", most: int = MOST_TEXT) -> str:
    """A text file in UTF-8, without the mark that some editors put in front.

    Raises:
        UnreadableFileError: If it is not there, larger than `most` bytes, or in another encoding.
    """
    data = read_bytes(path, most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFileError(
            f"{path} is not UTF-8 text: line {line} has the byte 0x{data[error.start]:02x}. Save it as UTF-8."
        ) from error


def read_json(path: "StrPath", most: int = MOST_TEXT) -> Any:
    """The value in a JSON file. For the limits see `parse_json`."""
    return parse_json(read_text(path, most), str(path))


def parse_json(text: str, where: str, most_values: int | None = None) -> Any:
    """The value that a JSON text stands for; lists nest 64 deep and integers have 40 digits at the most.

    Args:
        text: The text.
        where: Named in an error: a file, or a file and a line.
        most_values: How many values there may be, counted before any of them is made; as many as the budget
            allows if not given.

    Raises:
        UnreadableFileError: If the text is not JSON, or exceeds a limit.
        InputError: If its values do not fit into the budget of memory.

    Example:
        >>> parse_json('{"a": [1, 2.5]}', "here")
        {'a': [1, 2.5]}
    """
    brackets = text.count("[") + text.count("{")
    values = brackets + text.count(",") + 1
    if most_values is not None and values > most_values:
        raise UnreadableFileError(f"{where} has {values} values, more than the {most_values} expected.")
    check_room(values * _BYTES_PER_VALUE, where)
    try:
        value = json.loads(text, parse_int=_integer, object_pairs_hook=_object)
        if brackets > MOST_DEPTH and _depth(text) > MOST_DEPTH:
            raise ValueError(f"nested more than {MOST_DEPTH} deep")
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair cannot be written again
        return value
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise UnreadableFileError(f"{where} is not readable JSON: {reason}.") from error


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # two readers would each take another value
        raise ValueError("an object with the same name twice")
    return found


def _depth(text: str) -> int:
    import numpy as np

    brackets = np.frombuffer(re.sub(r'"(?:[^"\\]|\\.)*"|[^][{}"]+', "", text).encode(), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opening, 1, -1), dtype=np.int32).max(initial=0))


def number(text: str) -> float:
    """A number as tables write it: Python itself would take `1_0` for 10, and the digits of any script.

    >>> number("1e3")
    1000.0
    >>> number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a number
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def column_places(path: "StrPath", header: Sequence[str], names: Iterable[str]) -> list[int]:
    """Where the columns of these names are in a table.

    Raises:
        InputError: If one of them is not there, or there twice.

    >>> column_places("a.csv", ["b", "a"], ["a"])
    [1]
    """
    wanted = list(names)
    missing = [name for name in wanted if name not in header]
    if missing:
        raise InputError(f"{path} lacks the column {missing[0]!r} ({len(missing)} are missing).")
    twice = next((name for name in wanted if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} has two columns {twice!r}: rename or remove the one that is not meant.")
    return [header.index(name) for name in wanted]


def csv_records(lines: Iterable[str], path: "StrPath") -> Iterator[list[str]]:
    r"""What the csv module finds; a quote that is never closed is an error, not a row with all that follows.

    >>> list(csv_records(["a,b\n", '1,"2\n', '3"\n'], "a.csv"))
    [['a', 'b'], ['1', '2\n3']]
    >>> list(csv_records(["a,b\n", '1,"2\n', '3\n'], "a.csv"))
    Traceback (most recent call last):
    totalcal.errors.UnreadableFileError: a.csv has a quote that is never closed, near '1,"2'.
    """
    lines, last = tee(lines)
    reader = csv.reader(lines)
    before = 0
    for fields in reader:
        record = list(islice(last, reader.line_num - before))
        before = reader.line_num
        yield fields
    if before and _is_open(record):
        raise UnreadableFileError(
            f"{path} has a quote that is never closed, near {record[0].strip()[:40]!r}."
        )


def _is_open(record: list[str]) -> bool:
    """Whether the lines of a record end within quotes.

    >>> _is_open(['1,"2', '3']), _is_open(['1,"2"'])
    (True, False)
    """
    try:
        list(csv.reader(record, strict=True))
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def check_arrow(path: "StrPath", most: int = MOST_BATCH) -> None:
    """Refuse an Arrow or Feather file with a batch that says it is larger than `most` when uncompressed.

    pyarrow allocates what the first eight bytes of a compressed buffer say before it looks at the rest.
    """
    import pyarrow as pa

    with unreadable(path, "a table in Arrow"), open_regular(path), pa.memory_map(str(path)) as source:
        if source.read_at(len(ARROW_MAGIC), 0) == ARROW_MAGIC:
            source.seek(8)  # behind it a file is a stream
        for message in pa.ipc.MessageReader.open_stream(source):
            if message.type in ("record batch", "dictionary"):
                promised = _uncompressed(bytes(message.metadata), memoryview(message.body))
                if promised > most:
                    raise UnreadableFileError(
                        f"{path} has a batch of {promised} bytes, where at most {most} are expected. "
                        "Write it again in smaller batches."
                    )


def _uncompressed(metadata: bytes, body: memoryview) -> int:
    """What the buffers of a message become, as they say themselves; 0 if they are not compressed.

    The metadata are a flatbuffer: a table begins with the distance to the list of its fields' places.
    """

    def number(form: str, place: int) -> int:
        return int(struct.unpack_from(form, metadata, place)[0])

    def field(table: int, slot: int) -> int | None:
        places = table - number("<i", table)
        there = 4 + 2 * slot < number("<H", places)
        return table + distance if there and (distance := number("<H", places + 4 + 2 * slot)) else None

    def target(table: int, slot: int) -> int:
        place = field(table, slot)
        if place is None:
            raise ValueError("a message without its content")
        return place + number("<I", place)

    message = number("<I", 0)
    kind = field(message, 1)
    batch = target(message, 2)
    if kind is not None and number("<B", kind) == 2:  # a dictionary holds a batch
        batch = target(batch, 1)
    if field(batch, 3) is None:
        return 0
    buffers, total = target(batch, 2), 0
    for place in range(buffers + 4, buffers + 4 + 16 * number("<I", buffers), 16):
        start, length = struct.unpack_from("<qq", metadata, place)
        if length >= 8:
            total += max(0, struct.unpack_from("<q", body, start)[0])
    return total


def read_npz(
    path: "StrPath", names: Sequence[str] | None = None, most: int | None = None
) -> "dict[str, NDArray[Any]]":
    """The arrays of an `.npz`, or those of `names` that it has; numbers and strings only, never pickles.

    Args:
        path: The file.
        names: Of the arrays to read; the others are not even looked at.
        most: Bytes that the arrays may take together; a quarter of the budget, for work makes copies.

    Returns:
        Writable arrays in the machine's byte order, in the order of the file.

    Raises:
        UnreadableFileError: If it is not there, is damaged, holds objects, or promises more than it holds.
    """
    arrays: dict[str, NDArray[Any]] = {}
    most = min(MOST_BYTES, room() // 4) if most is None else most
    with opened_npz(path) as bundle:
        if len(bundle.infolist()) > MOST_MEMBERS:
            raise ValueError(f"it has {len(bundle.infolist())} members")
        for member in bundle.infolist():
            name = member.filename.removesuffix(".npy")
            if names is None or name in names:
                with npz_member(bundle, member) as stream:
                    arrays[name] = _array(path, stream, member.file_size, most)
                most -= arrays[name].nbytes
    return arrays


def npz_names(path: "StrPath") -> list[str]:
    """The names of the arrays of an `.npz`."""
    with opened_npz(path) as bundle:
        return [name.removesuffix(".npy") for name in bundle.namelist()[:MOST_MEMBERS]]


def npz_shapes(path: "StrPath", names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of those arrays of an `.npz` that it has: their headers are read, and nothing else."""
    shapes = {}
    with opened_npz(path) as bundle:
        for member in bundle.infolist()[:MOST_MEMBERS]:
            if (name := member.filename.removesuffix(".npy")) in names:
                with npz_member(bundle, member) as stream:
                    shapes[name] = npy_header(stream, member.file_size)[0]
    return shapes


@contextmanager
def opened_npz(path: "StrPath") -> "Iterator[ZipFile]":
    """The archive that an `.npz` is; what goes wrong while it is read is an error of the file."""
    from zipfile import ZipFile

    with (
        unreadable(path, "an .npz of plain arrays", "Save it with numpy.savez."),
        open_regular(path) as file,
        ZipFile(file) as bundle,
    ):
        names = Counter(name.removesuffix(".npy") for name in bundle.namelist())
        twice = next((name for name, times in names.items() if times > 1), None)
        if twice is not None:  # two readers would each take another array
            raise ValueError(f"two arrays {twice[:40]!r}")
        yield bundle


def npz_member(bundle: "ZipFile", member: "ZipInfo") -> IO[bytes]:
    """The bytes of an array, of which there cannot be more than its compressed ones can become."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in a way that numpy does not use")
    if member.file_size > _DEFLATE * member.compress_size + _CHUNK:
        raise ValueError(f"{member.filename} promises {member.file_size} bytes")
    return bundle.open(member)


def read_npy(path: "StrPath", most: int = MOST_BYTES) -> "NDArray[Any]":
    """The array of an `.npy` file, as `read_npz` gives those of an `.npz`."""
    with unreadable(path, "an .npy of numbers", "Save it with numpy.save."), open_regular(path) as stream:
        return _array(path, stream, Path(path).stat().st_size, most)


def map_npy(path: "StrPath") -> "NDArray[Any]":
    """The array of an `.npy` file without reading it: pages come on demand, and writes stay in memory."""
    import numpy as np

    with unreadable(path, "an .npy of numbers", "Save it with numpy.save."), open_regular(path) as stream:
        shape, fortran, dtype = npy_header(stream, Path(path).stat().st_size)
        if 0 in shape:
            return np.empty(shape, dtype)
        order = "F" if fortran else "C"
        return np.memmap(path, dtype, "c", stream.tell(), shape, order)  # type: ignore[call-overload, no-any-return]


def _array(path: "StrPath", stream: IO[bytes], size: int, most: int) -> "NDArray[Any]":
    """What an .npy of `size` bytes holds; nothing is allocated until its header agrees with that size."""
    import numpy as np

    shape, fortran, dtype = npy_header(stream, size)
    length = size - stream.tell()
    if length > most:
        raise UnreadableFileError(
            f"{path} holds {length} bytes, and {most} are allowed: split it, or allow more (--memory)."
        )
    data = bytearray(length)
    view, place = memoryview(data), 0
    while place < length:
        read = stream.readinto(view[place : place + _CHUNK])  # type: ignore[attr-defined]
        if not read:
            raise EOFError(f"it ends after {place} of {length} bytes")
        place += read
    if stream.read(1):  # at the end a zip holds the bytes against their checksum
        raise ValueError("it is longer than it says")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "U":
        array.tolist()  # not every 32 bits are a character
    return array.astype(dtype.newbyteorder("="), copy=False)


def npy_header(stream: IO[bytes], size: int) -> "tuple[tuple[int, ...], bool, np.dtype[Any]]":
    """Shape, order (True for Fortran's) and type of the `.npy` of `size` bytes that a stream begins."""
    from math import prod

    from numpy.lib import format

    version = format.read_magic(stream)
    read = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format")
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "SU" and dtype.str[1:] not in _NUMBERS:
        raise ValueError(f"it holds {dtype}, not numbers or strings")
    if len(shape) > MOST_AXES or any(axis < 0 for axis in shape):
        raise ValueError(f"no array has the shape {str(shape)[:80]}")
    length, there = prod(shape) * dtype.itemsize, size - stream.tell()
    if length != there:
        raise ValueError(f"it promises {length} bytes and holds {there}")
    return shape, fortran, dtype


def read_picture(
    path: "StrPath", mode: str = "RGB", most_pixels: int = MOST_PIXELS, wanted: tuple[int, int] | None = None
) -> "Image":
    """A picture as people see it; its size is looked at first, since a small file can hold an enormous one.

    It is turned as its EXIF data say; 16 bits become 8 by their range, not by cutting off what is above 255;
    what is transparent stands on white.

    Args:
        path: BMP, GIF, JPEG, PNG, PPM, TIFF or WEBP.
        mode: "RGB", or "L" for grey.
        most_pixels: Of a picture that is still decoded.
        wanted: Width and height to which it will be brought: a large JPEG is decoded at what that takes.

    Returns:
        A Pillow image in `mode`, its file closed: resize it, or take `numpy.asarray` of it.

    Raises:
        UnreadableFileError: If it is not there, no picture, damaged or too large.
        MissingExtraError: Without Pillow.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "data", "reading pictures") from error
    import warnings

    content = read_bytes(path, MOST_TEXT)  # a file would allocate what a chunk promises
    if content.startswith(_JPEG) and content.count(_SCAN) > MOST_SCANS:
        raise UnreadableFileError(f"{path} has more than {MOST_SCANS} scans: refused. Save it anew.")
    with unreadable(path, "a picture"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, on what it makes of damage
        try:
            opened = Image.open(io.BytesIO(content), formats=PICTURES)
        except UnidentifiedImageError as error:  # it names the buffer, not the file
            raise UnreadableFileError(
                f"{path} cannot be read as a picture: it is none of {' '.join(PICTURES)}. "
                "Make or fetch it again."
            ) from error
        with opened as picture:
            width, height = picture.size
            if width * height > most_pixels:
                raise UnreadableFileError(
                    f"{path} has {width} × {height} pixels, more than {most_pixels}: make it smaller first."
                )
            if picture.format == "PNG":  # Pillow looks at no checksum, nor at what stands behind the pixels
                with Image.open(io.BytesIO(content)) as same:
                    same.verify()
            if wanted is not None and width * height > LARGE_PICTURE:
                picture.draft(mode, (2 * max(wanted), 2 * max(wanted)))  # of other formats, nothing
                width, height = picture.size
            check_room(width * height * BYTES_PER_PIXEL, str(path))
            seen = _as_seen(path, picture)
            seen.load()
            return seen if seen.mode == mode else seen.convert(mode)


def _as_seen(path: "StrPath", picture: "Image") -> "Image":
    import numpy as np
    from PIL import Image, ImageOps

    is_turned = picture.getexif().get(_ORIENTATION, 1) != 1
    upright = ImageOps.exif_transpose(picture) if is_turned else picture  # it copies what need not be turned
    if upright.mode.startswith("I;16") or (upright.mode == "I" and picture.format in ("PNG", "PPM")):
        pixels = np.asarray(upright).astype(np.uint32)
        return Image.fromarray(((pixels + 128) // 257).astype(np.uint8))  # 65535 = 255 · 257
    if upright.mode in ("I", "F"):
        raise UnreadableFileError(
            f"{path} has pixels of 32 bits, and does not say which of their values is white. "
            "Save it with 8 or 16 bits."
        )
    if upright.has_transparency_data:
        painted = upright.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", painted.size, "white"), painted)
    return upright
