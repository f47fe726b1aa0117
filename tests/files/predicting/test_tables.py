import csv
import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from totalcal.data.preprocessing import Preprocessing
from totalcal.errors import InputError, MissingExtraError, UnreadableFileError
from totalcal.files import budget
from totalcal.files.predicting.inputs import rows_of
from totalcal.files.predicting.tables import ColumnFile, TableFile, read_table

NAMED = Preprocessing((2,), torch.zeros(2), torch.ones(2), ("a", "b"))
UNNAMED = Preprocessing((2,), torch.zeros(2), torch.ones(2))


@pytest.fixture(params=["with pyarrow", "without"])
def perhaps_pyarrow(request, monkeypatch):
    if request.param == "without":
        for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
            monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def read(tmp_path):
    def read(content, preprocessing=NAMED, size=3, skip=0):
        """What is found in a CSV: chunk by chunk the good rows and the complaints."""
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        chunks = TableFile(path, preprocessing).chunks(size, skip)
        return [(chunk.names, chunk.values.tolist(), chunk.complaints) for chunk in chunks]

    return read


def test_columns_are_found_by_name_and_others_are_left_alone(read, perhaps_pyarrow):
    assert read("b,c,a\n1,x,2\n3,,4\n") == [(["row 0", "row 1"], [[2, 1], [4, 3]], [])]


def test_chunks_go_on_where_they_are_told_to(read, perhaps_pyarrow):
    content = "a,b\n" + "".join(f"{i},{-i}\n" for i in range(8))
    whole = read(content)
    assert [len(names) for names, _, _ in whole] == [3, 3, 2]
    assert read(content, skip=3) == whole[1:]
    assert read(content, skip=6) == whole[2:]
    assert read(content, skip=4, size=2)[0] == (["row 4", "row 5"], [[4, -4], [5, -5]], [])
    assert read(content, skip=8) == []


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a,b\r\n1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        ("a,b\r1,2\r3,4", [[1, 2], [3, 4]]),
        ("\ufeffa,b\n1,2\n3,4", [[1, 2], [3, 4]]),
        ('"a","b"\n1,2\n3,"4"\n', [[1, 2], [3, 4]]),
        ('"a\n?",a,b\n0,1,2\n0,3,4\n', [[1, 2], [3, 4]]),
        ('a,b,c\n1,2,"x\ny"\n3,4,\n', [[1, 2], [3, 4]]),
        ("a,c,b,c\n1,9,2,9\n3,9,4,9\n", [[1, 2], [3, 4]]),
        ("a,b\n 1 ,+2\n10e-1,4.\n", [[1, 2], [1, 4]]),
    ],
)
def test_what_spreadsheets_write_is_read(read, perhaps_pyarrow, content, values):
    assert [row for _, rows, _ in read(content) for row in rows] == values


def test_what_only_python_takes_for_a_number_is_none(read, perhaps_pyarrow):
    (found,) = read("a,b\n1_0,2\n\u0661,2\n3,4\n")
    assert found[0] == ["row 2"]


def test_columns_of_the_same_name_are_refused_where_the_model_takes_one(read, perhaps_pyarrow):
    with pytest.raises(InputError, match="two columns 'b'"):
        read("a,b,b\n1,2,9\n")


def test_bad_rows_are_named_wherever_they_stand(read, perhaps_pyarrow):
    rows = ["1,2", "x,2", "1,2,3", "", "nan,1", "1,inf", "1e999,2", ",", "NA,1", "5,6"]
    found = read("\n".join(["a,b", *rows]), size=4)
    assert [name for names, _, _ in found for name in names] == ["row 0", "row 9"]
    assert [tuple(complaint) for _, _, complaints in found for complaint in complaints] == [
        ("row 1", "holds a value that is not a number in the column 'a'"),
        ("row 2", "has 3 columns, the header has 2"),
        ("row 3", "has 0 columns, the header has 2"),
        ("row 4", "holds NaN or infinity in the column 'a'"),
        ("row 5", "holds NaN or infinity in the column 'b'"),
        ("row 6", "holds NaN or infinity in the column 'a'"),
        ("row 7", "holds a value that is not a number in the column 'a'"),
        ("row 8", "holds a value that is not a number in the column 'a'"),
    ]


def test_numbers_are_those_that_python_reads_to_the_bit(read, perhaps_pyarrow):
    numbers = [0.1, 1 / 3, 1e-310, 2.0**-1074, 1.7976931348623157e308, 123456789.123456789, -0.0]
    found = read("a,b\n" + "".join(f"{number!r},{number:.25e}\n" for number in numbers), size=10)
    assert np.array(found[0][1]).tobytes() == np.repeat(numbers, 2).tobytes()


cells = st.one_of(
    st.floats(allow_nan=True).map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(
        ["", " ", "1e5", ".5", "1.", "0x1", "١", '"1"', '"1,2"', '"', "é", "1\r", "\t2", "nan", "-Inf"]
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(cells, min_size=1, max_size=3).map(",".join), max_size=8),
    st.sampled_from(["\n", "\r\n"]),
)
def test_with_and_without_pyarrow_all_is_the_same(tmp_path_factory, lines, end):
    path = tmp_path_factory.mktemp("it") / "table.csv"
    path.write_bytes(end.join(["a,b", *lines]).encode())

    def found():
        try:
            return [
                (chunk.names, chunk.values.tolist(), chunk.complaints)
                for chunk in TableFile(path, NAMED).chunks(3)
            ]
        except UnreadableFileError as error:
            return str(error)

    by_arrow = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert found() == by_arrow


def test_the_csv_module_agrees_on_what_a_row_is(read, perhaps_pyarrow):
    content = 'a,b\n1,2\n"3",4\n5,"6"\n7,8\n'
    expected = [[float(cell) for cell in row] for row in csv.reader(content.splitlines()[1:])]
    assert [row for _, rows, _ in read(content, size=2) for row in rows] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3,\xe9\n", r"not UTF-8 text: row 1 has the byte 0xe9"),
        (b'a,b\n1,"2\xe9"\n', "Save it as CSV in UTF-8"),
        (b'a,b\n1,2\n3,"4\n5,6\n7,8\n', "a quote that is never closed, near '3"),
        (b'a,b\n"' + b"x" * 200_000, "field larger than field limit"),
        (b"\xff\xfea\x00,\x00b\x00", "Save it as CSV in UTF-8"),
    ],
)
def test_what_is_no_table_ends_in_one_error_that_names_the_file(read, perhaps_pyarrow, content, message):
    with pytest.raises(UnreadableFileError, match=message) as error:
        read(content)
    assert "table.csv" in str(error.value)


def test_a_header_that_does_not_fit_is_refused_before_any_row_is_read(read):
    with pytest.raises(InputError, match=r"lacks .*'b'"):
        read("a,c\n1,2\n")
    with pytest.raises(InputError, match="2 columns"):
        read("a,b,c\n", UNNAMED)
    with pytest.raises(InputError, match="header"):
        read("", UNNAMED)


@pytest.fixture(params=["table.parquet", "table.arrow", "stream.arrow", "table.feather"])
def write(request, tmp_path):
    path = tmp_path / request.param

    def write(table, rows_per_batch=4):
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=rows_per_batch)
        elif path.suffix == ".feather":
            feather.write_feather(table, path, chunksize=rows_per_batch)
        else:
            make = pa.ipc.new_stream if path.stem == "stream" else pa.ipc.new_file
            with make(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=rows_per_batch)
        return path

    return write


def test_columns_of_other_kinds_of_files_are_those_of_a_csv(write, read):
    numbers = np.random.default_rng(0).normal(size=(11, 2))
    table = pa.table({"b": numbers[:, 1], "c": ["x"] * 11, "a": numbers[:, 0]})
    content = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in numbers.tolist())
    path = write(table)
    for skip in (0, 3, 6, 9):
        chunks = rows_of(path, NAMED).chunks(3, skip)
        assert [(chunk.names, chunk.values.tolist(), []) for chunk in chunks] == read(content, skip=skip)


def test_whole_numbers_and_truths_are_numbers_and_what_is_missing_is_named(write):
    table = pa.table({"a": pa.array([1, None, 3], pa.int32()), "b": pa.array([True, False, None])})
    (chunk,) = rows_of(write(table), UNNAMED).chunks(10)
    assert chunk.values.tolist() == [[1, 1]]
    assert [tuple(complaint) for complaint in chunk.complaints] == [
        ("row 1", "holds NaN or infinity in the column 'a'"),
        ("row 2", "holds NaN or infinity in the column 'b'"),
    ]


def test_text_in_the_place_of_numbers_is_refused(write):
    with pytest.raises(InputError, match=r"column 'b' of .* holds string"):
        rows_of(write(pa.table({"a": [1.0], "b": ["2"]})), NAMED)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:40], lambda data: data.replace(b"more", b"\xff\xfeor")]
)
def test_a_damaged_file_is_named(write, damage):
    path = write(pa.table({"a": [1.0], "b": [2.0], "more": [3.0]}))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UnreadableFileError, match=path.name):
        list(rows_of(path, NAMED).chunks(3))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "table.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"totalcal\[tables\]"):
        ColumnFile(tmp_path / "table.parquet", NAMED)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_whole_table_is_what_pandas_reads(tmp_path, kind):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, -1e-300], "c": ["x", "a, b", 'say "so"']})
    path = tmp_path / f"it.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    pd.testing.assert_frame_equal(read_table(path), frame)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_whole_table_of_two_columns_of_one_name_is_refused(tmp_path, kind):
    path = tmp_path / f"it.{kind}"
    if kind == "csv":
        path.write_text("a,b,b\n1,2,3\n")
    else:
        pq.write_table(pa.table([pa.array([1])] * 3, ["a", "b", "b"]), path)
    with pytest.raises(InputError, match="two columns 'b'"):
        read_table(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_no_table(tmp_path, kind):
    os.mkfifo(tmp_path / f"it.{kind}")
    with pytest.raises(UnreadableFileError, match="no regular file"):
        read_table(tmp_path / f"it.{kind}")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_whole_table_beyond_the_budget_is_refused_before_it_is_made(tmp_path, monkeypatch, kind):
    """A column of one number is some bytes of Parquet; a number of a CSV is two, and eight in memory."""
    path = tmp_path / f"it.{kind}"
    if kind == "csv":
        path.write_text("a\n" + "1\n" * 4_000_000)
    else:
        pq.write_table(pa.table({"a": np.ones(1 << 23)}), path)
    assert path.stat().st_size < 10e6
    monkeypatch.setattr(budget, "room", lambda: 100 << 20)
    with pytest.raises(InputError, match="of the budget are left"):
        read_table(path)


def test_a_line_without_end_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "long.csv").write_text("a,b\n" + "1" * (65 << 20))
    with pytest.raises(UnreadableFileError, match=r"long\.csv .*more than \d+ bytes"):
        list(TableFile(tmp_path / "long.csv", NAMED).chunks(3))
