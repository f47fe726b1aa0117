import contextlib
import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from totalcal.data import readers
from totalcal.data.readers import idx_reader, read_idx
from totalcal.errors import DataError

HEADER = struct.pack(">HBB", 0, 8, 3)


@pytest.mark.parametrize("compress", [True, False])
def test_it_reads_what_the_format_says(tmp_path, draw, write_idx, compress):
    images, labels = draw.integers(0, 256, (5, 4, 3)), np.array([0, 9, 3, 3, 1])
    write_idx(tmp_path, images, labels, compress=compress)
    arrays = idx_reader(10)(tmp_path, "test")
    np.testing.assert_array_equal(arrays.inputs, images)
    np.testing.assert_array_equal(arrays.labels, labels)
    assert (arrays.inputs.dtype, arrays.labels.dtype) == (np.uint8, np.int64)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x08",
        b"\x00\x00\x0d\x01" + bytes(8),  # floats
        HEADER + struct.pack(">3I", 2, 2, 2) + bytes(7),  # one byte short
        HEADER + struct.pack(">3I", 2, 2, 2) + bytes(9),  # one byte long
        HEADER + struct.pack(">I", 2),  # sizes cut off
        HEADER + struct.pack(">3I", *[2**32 - 1] * 3) + bytes(8),  # announces 8e28 bytes
    ],
)
def test_it_refuses_what_is_damaged(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError, match="file"):
        read_idx(tmp_path / "file")


@settings(deadline=None, max_examples=50)
@given(data=st.binary(max_size=64))
def test_no_bytes_make_it_do_anything_but_read_or_refuse(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(b"\x00\x00\x08" + data)
    with contextlib.suppress(DataError):
        assert read_idx(path).size > 0


def test_a_file_that_swells_when_uncompressed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MOST_BYTES", 10_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(20_000)))
    with pytest.raises(DataError, match="more than 10000 bytes"):
        read_idx(tmp_path / "bomb.gz")


@pytest.mark.parametrize(("count", "label"), [(4, 0), (5, 10)])
def test_labels_that_do_not_fit_are_refused(tmp_path, write_idx, count, label):
    write_idx(tmp_path, np.zeros((5, 2, 2)), np.full(count, label))
    with pytest.raises(DataError, match="labels"):
        idx_reader(10)(tmp_path, "test")
