"""Files that others wrote: what is right comes back, what is not is an error that names the file."""

import gzip
import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.lib.format import write_array_header_1_0
from numpy.testing import assert_allclose
from PIL import Image
from pyarrow import feather

from totalcal.errors import DataError, InputError, UnreadableFileError
from totalcal.files.reading import (
    check_arrow,
    column_places,
    map_npy,
    number,
    parse_json,
    read_bytes,
    read_json,
    read_npy,
    read_npz,
    read_picture,
    read_text,
    unreadable,
)


def header(shape, descr="<f4"):
    entries = {"descr": descr, "fortran_order": False, "shape": shape}
    whole = io.BytesIO()
    write_array_header_1_0(whole, entries)
    return whole.getvalue()


def zipped(path, member, data, **options):
    with zipfile.ZipFile(path, "w", **options) as bundle:
        bundle.writestr(member, data)


def peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_unreadable_file_is_data_and_input_at_once():
    assert issubclass(UnreadableFileError, DataError)
    assert issubclass(UnreadableFileError, InputError)


@pytest.mark.parametrize(
    "read", [read_bytes, read_text, read_json, read_npz, read_npy, map_npy, read_picture]
)
def test_a_file_that_is_not_there_and_a_folder_are_named(tmp_path, read):
    with pytest.raises(UnreadableFileError, match=r"no file .*gone"):
        read(tmp_path / "gone")
    with pytest.raises(UnreadableFileError, match=str(tmp_path)):
        read(tmp_path)


def test_text_loses_its_mark_and_says_which_line_is_no_utf8(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n")
    assert read_text(path) == "a,b\n"
    path.write_bytes("a,b\nné,1\n".encode("latin-1"))
    with pytest.raises(UnreadableFileError, match=r"table\.csv.*line 2.*0xe9.*UTF-8"):
        read_text(path)


def test_no_more_bytes_than_asked_for_even_if_a_small_file_holds_them(tmp_path):
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    assert len(read_bytes(path)) == 10_000_000
    with pytest.raises(UnreadableFileError, match="more than 1000 bytes"):
        read_bytes(path, most=1000)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:20] + b"\xff" + data[21:], lambda data: b""]
)
def test_a_damaged_gzip_is_named(tmp_path, damage):
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(np.random.default_rng(0).bytes(1000))))
    with pytest.raises(UnreadableFileError, match=r"a\.gz .*gzip"):
        read_bytes(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": }',
        "[" * 100_000,
        "[" * 1_000 + "]" * 1_000,
        "[" * 65 + "]" * 65,
        '{"seed": ' + "9" * 5_000 + "}",
        "9" * 41,
        '["\\ud800"]',
        "nul",
    ],
)
def test_json_that_is_none_or_too_much_is_refused(text):
    with pytest.raises(UnreadableFileError, match=r"runs/config\.json"):
        parse_json(text, "runs/config.json")


@pytest.mark.parametrize(
    "value", [[[[]] * 500], {"a[": "]]" * 200, "é": ["\U0001f600", '"[', 2**64, -1.5e-9, None]}, "[" * 900]
)
def test_json_comes_back_as_it_was(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text, "here") == value


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_numpy_reads_them(tmp_path, save):
    rng = np.random.default_rng(0)
    arrays = {
        "f": rng.normal(size=(3, 4, 5)),
        "fortran": np.asfortranarray(rng.normal(size=(7, 3)).astype(np.float32)),
        "big": np.arange(6, dtype=">i4").reshape(2, 3),
        "names": np.array(["kat", "düsseldorf"]),
        "bytes": np.array([b"a", b"bcd"]),
        "flag": np.array([True, False]),
        "none": np.zeros((0, 3), np.float16),
        "scalar": np.array(3.5),
        "complex": rng.normal(size=3) + 1j,
    }
    save(tmp_path / "a.npz", **arrays)
    read = read_npz(tmp_path / "a.npz")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].shape == array.shape
        assert read[name].dtype == array.dtype.newbyteorder("=")
        assert read[name].flags.writeable
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), array)
        np.testing.assert_array_equal(map_npy(tmp_path / "a.npy"), array)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_batch_of_arrow_that_promises_terabytes_is_refused_before_it_is_made(tmp_path, compression):
    words = pa.array(["x", "y"] * 500).dictionary_encode()
    path, table = tmp_path / "a.arrow", pa.table({"a": np.arange(1000) / 3, "words": words})
    feather.write_feather(table, path, compression=compression)
    check_arrow(path)
    data, size = path.read_bytes(), (8000).to_bytes(8, "little")  # of the column, before it was compressed
    assert data.count(size) == 1
    path.write_bytes(data.replace(size, (1 << 50).to_bytes(8, "little")))
    with pytest.raises(UnreadableFileError, match=r"a\.arrow"):
        check_arrow(path)
    feather.write_feather(table, path, compression="uncompressed")
    check_arrow(path)


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_too_little_memory_is_not_blamed_on_the_file(error):
    message = r"a\.npy needs more memory than there is"
    with pytest.raises(UnreadableFileError, match=message), unreadable("a.npy", "numbers"):
        raise error


def test_only_the_arrays_asked_for_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", wanted=np.arange(3), other=np.array([{}], dtype=object))
    assert list(read_npz(tmp_path / "a.npz", ["wanted", "absent"])) == ["wanted"]


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a file ran code",))

    np.savez(tmp_path / "a.npz", inputs=np.array([Trap()], dtype=object))
    with pytest.raises(UnreadableFileError, match=r"a\.npz.*not numbers"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 62, 1 << 62), (-4,), (2,) * 40])
@pytest.mark.parametrize("read", [read_npz, read_npy, map_npy])
def test_a_header_that_promises_more_than_there_is_costs_nothing(tmp_path, shape, read):
    path, data = tmp_path / "a.npz", header(shape) + bytes(16)
    if read is read_npz:
        zipped(path, "inputs.npy", data, compression=zipfile.ZIP_DEFLATED)
    else:
        path.write_bytes(data)

    def attempt():
        with pytest.raises(UnreadableFileError, match=r"a\.npz"):
            read(path)

    assert peak(attempt) < 20_000_000


def test_a_zip_bomb_is_refused_before_it_goes_off(tmp_path):
    path = tmp_path / "a.npz"
    zipped(path, "inputs.npy", header((50_000_000,), "|u1") + bytes(50_000_000), compression=8)
    assert path.stat().st_size < 100_000

    def attempt():
        with pytest.raises(UnreadableFileError, match="and 1000000 are allowed"):
            read_npz(path, most=1_000_000)

    assert peak(attempt) < 20_000_000


@pytest.mark.parametrize("names", [("inputs.npy", "inputs.npy"), ("inputs", "inputs.npy")])
def test_an_array_that_is_there_twice_is_nobodys_guess(tmp_path, names):
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        warnings.simplefilter("ignore")  # of zipfile, on the second
        for value, name in enumerate(names):
            content = io.BytesIO()
            np.save(content, np.full((2, 3), value))
            archive.writestr(name, content.getvalue())
    with pytest.raises(UnreadableFileError, match="two arrays 'inputs'"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_than_numpys_are_refused(tmp_path, compression):
    zipped(tmp_path / "a.npz", "inputs.npy", header((0,)), compression=compression)
    with pytest.raises(UnreadableFileError, match="compressed"):
        read_npz(tmp_path / "a.npz")


def test_one_flipped_bit_of_an_array_is_noticed(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.zeros(1000))
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match="CRC"):
        read_npz(path)


def test_what_is_no_character_is_refused(tmp_path):
    zipped(tmp_path / "a.npz", "names.npy", header((1,), "<U1") + b"\xff\xff\xff\x7f")
    with pytest.raises(UnreadableFileError):
        read_npz(tmp_path / "a.npz")


def test_pictures_are_decoded_in_the_mode_asked_for(tmp_path):
    from PIL import Image

    Image.new("RGBA", (5, 4), (255, 0, 0, 255)).save(tmp_path / "a.png")
    assert np.asarray(read_picture(tmp_path / "a.png")).tolist() == [[[255, 0, 0]] * 5] * 4
    assert np.asarray(read_picture(tmp_path / "a.png", "L")).tolist() == [[76] * 5] * 4


def png(width, height):
    """A PNG of zeros: a few hundred bytes that ask for width × height pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_the_size_of_a_picture_is_looked_at_before_it_is_decoded(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png(9_000, 9_000))
    with pytest.raises(UnreadableFileError, match=r"bomb\.png has 9000 × 9000 pixels.*smaller"):
        read_picture(tmp_path / "bomb.png")
    (tmp_path / "bomb.png").write_bytes(png(42_000, 42_000))
    with pytest.raises(UnreadableFileError, match=r"bomb\.png.*1764000000 pixels"):  # of Pillow itself
        read_picture(tmp_path / "bomb.png")


def test_a_part_of_a_picture_that_promises_gigabytes_costs_nothing(tmp_path):
    path, data = tmp_path / "a.png", bytearray(png(10, 10))
    data[33:37] = b"\xff\xff\x02\x18"  # the length of IDAT
    path.write_bytes(data)

    def refused():
        with pytest.raises(UnreadableFileError, match=r"a\.png cannot be read"):
            read_picture(path)

    assert peak(refused) < 20_000_000


def test_a_picture_that_ends_behind_its_pixels_is_not_taken_for_a_whole_one(tmp_path):
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=turned)
    whole = (tmp_path / "a.png").read_bytes()
    assert np.array_equal(read_picture(tmp_path / "a.png", "L"), pixels[::-1].T)
    for end in range(len(whole) - 4):  # without what says how it was held, it would show something else
        (tmp_path / "a.png").write_bytes(whole[:end])
        with pytest.raises(UnreadableFileError):
            read_picture(tmp_path / "a.png", "L")


def test_a_jpeg_of_scans_without_end_is_refused_before_one_is_decoded(tmp_path):
    content = io.BytesIO()
    Image.new("L", (64, 64), 128).save(content, "JPEG", progressive=True)
    whole = content.getvalue()
    last, end = whole.rindex(b"\xff\xda"), whole.rindex(b"\xff\xd9")
    for more, name in ((10, "few.jpg"), (1000, "many.jpg")):
        (tmp_path / name).write_bytes(whole[:end] + more * whole[last:end] + whole[end:])
    assert read_picture(tmp_path / "few.jpg", "L").size == (64, 64)
    with pytest.raises(UnreadableFileError, match=r"many\.jpg has more than 100 scans"):
        read_picture(tmp_path / "many.jpg", "L")


def test_a_large_jpeg_is_decoded_at_no_more_than_is_needed_and_looks_the_same(tmp_path):
    width, height = 6000, 4000
    ramp = np.add.outer(np.linspace(0, 120, height), np.linspace(0, 120, width)).astype(np.uint8)
    Image.fromarray(ramp).save(tmp_path / "a.jpg")
    small = read_picture(tmp_path / "a.jpg", "L", wanted=(30, 20))
    assert small.size[0] < width // 4
    assert_allclose(small.resize((30, 20)), Image.fromarray(ramp).resize((30, 20)), atol=2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("name", ["a.png", "a.gz", "a.npz", "a.npy", "a.csv", "a.json", "a.arrow"])
def test_a_pipe_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    read = {
        ".png": read_picture, ".npz": read_npz, ".npy": read_npy, ".json": read_json, ".arrow": check_arrow,
    }.get(Path(name).suffix, read_bytes)  # fmt: skip
    with pytest.raises(UnreadableFileError, match="no regular file"):
        read(tmp_path / name)


@pytest.mark.parametrize("text", ["1_0", "\u0661\u0660", "1\u00a0"])  # Python takes all three for numbers
def test_only_plain_digits_are_numbers(text):
    float(text)
    with pytest.raises(ValueError, match="not a number"):
        number(text)


def test_a_column_that_is_there_twice_is_nobodys_guess():
    with pytest.raises(InputError, match="two columns 'a'"):
        column_places("x.csv", ["a", "b", "a"], ["b", "a"])
    assert column_places("x.csv", ["a", "b", "a"], ["b"]) == [1]


def test_an_object_that_says_two_things_of_one_name_is_refused():
    with pytest.raises(UnreadableFileError, match="same name twice"):
        parse_json('{"a": {"b": 1, "b": 2}}', "here")


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"not a picture", png(10, 10)[:43], b"%!PS-Adobe"])
def test_what_is_no_picture_is_named(tmp_path, data):
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(UnreadableFileError, match=r"a\.png cannot be read as a picture"):
        read_picture(tmp_path / "a.png")
