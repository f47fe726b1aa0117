import csv
import json
import multiprocessing
import os
import sys
import warnings
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from totalcal.errors import InputError, MissingExtraError
from totalcal.files import whole_files
from totalcal.files.predicting import outputs
from totalcal.files.predicting.outputs import ResumableOutput, format_of

NAMES = ["row", "class", "p(a)", "entropy", "decision", "reason"]
KINDS = ["out.csv", "out.parquet", "out.arrow"]


def columns(start, count):
    numbers = np.random.default_rng(start).random((2, count))
    return [
        [f"row {row}" for row in range(start, start + count)],
        ["a"] * count,
        *numbers,
        ["accept"] * count,
        [""] * count,
    ]


def opened(path, fingerprint="it"):
    return ResumableOutput(path, fingerprint, format_of(path, NAMES, ["a"]))


def write(path, chunks=5, stop=None):
    """Five chunks of four good rows and a bad one; interrupted after `stop` of them."""
    with opened(path) as file:
        for chunk in range(file.rows // 5, chunks):
            if chunk == stop:
                raise KeyboardInterrupt
            file.append(columns(5 * chunk, 4), [(f"row {5 * chunk + 4}", "is bad")], 5)
    return file


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    return tmp_path / request.param


@pytest.fixture
def expected(tmp_path, path):
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole" / path.name)
    return (tmp_path / "whole" / path.name).read_bytes()


@pytest.fixture
def interrupted(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, stop=3)
    return path


def left(path):
    return sorted(file.name for file in path.parent.glob("*out*") if file.is_file())


def test_an_interrupted_run_ends_with_the_same_bytes(interrupted, expected):
    done = write(interrupted)
    assert (done.rows, done.bad_rows) == (25, 5)
    assert interrupted.read_bytes() == expected
    assert left(interrupted) == [interrupted.name, f"{interrupted.name}.bad"]


def test_what_a_kill_left_beyond_the_last_chunk_is_cut_off(interrupted, expected):
    for suffix in (".part", ".bad"):
        with outputs.beside(interrupted, suffix).open("ab") as file:
            file.write(b"row 15,half a li")
    with outputs.beside(interrupted, ".progress").open("ab") as file:
        file.write(b'{"rows": 2')
    write(interrupted)
    assert interrupted.read_bytes() == expected


@pytest.mark.parametrize("suffix", [".part", ".bad"])
def test_a_file_shorter_than_its_progress_says_is_gone_on_with_from_what_is_sound(
    interrupted, expected, suffix
):
    short = outputs.beside(interrupted, suffix)
    os.truncate(short, short.stat().st_size - 1)
    with pytest.warns(UserWarning, match="first 10"):
        write(interrupted)
    assert interrupted.read_bytes() == expected
    assert outputs.beside(interrupted, ".bad").read_text().count("\n") == 5


@pytest.mark.parametrize("suffix", [".part", ".bad"])
def test_a_file_that_is_gone_is_begun_again_in_words(interrupted, expected, suffix):
    outputs.beside(interrupted, suffix).unlink()
    with pytest.warns(UserWarning, match="first 0"):
        write(interrupted)
    assert interrupted.read_bytes() == expected


def test_a_changed_byte_is_found_and_written_again(interrupted, expected):
    part = outputs.beside(interrupted, ".part")
    content = bytearray(part.read_bytes())
    content[-20] ^= 1
    part.write_bytes(content)
    with pytest.warns(UserWarning, match="first 10"):
        write(interrupted)
    assert interrupted.read_bytes() == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [("rows", 14), ("bad_rows", 4), ("part", -1), ("bad", 1.5), ("rows", True), ("check", None)],
)
def test_a_changed_number_of_the_progress_is_found(interrupted, expected, key, value):
    progress = outputs.beside(interrupted, ".progress")
    *lines, last = progress.read_text().splitlines()
    progress.write_text("\n".join([*lines, json.dumps(json.loads(last) | {key: value})]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the last chunk is done again is said where it was sound
        done = write(interrupted)
    assert (done.rows, done.bad_rows) == (25, 5)
    assert interrupted.read_bytes() == expected


@pytest.mark.parametrize("damaged", [b"\x00" * 40, b"[" * 100_000], ids=["zeros", "nested"])
def test_a_damaged_progress_says_what_to_do(interrupted, damaged):
    outputs.beside(interrupted, ".progress").write_bytes(damaged)
    with pytest.raises(InputError, match="Remove it"):
        write(interrupted)


def test_the_progress_of_another_run_is_refused(interrupted):
    with pytest.raises(InputError, match="another model"):
        opened(interrupted, "another").__enter__()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["finish", "unlink"])
def test_a_kill_while_tidying_up_leaves_a_run_that_can_be_called_again(path, expected, step, monkeypatch):
    def kill(*arguments, **options):
        raise Killed

    form = outputs.AsCSV if path.suffix == ".csv" else outputs.AsColumns
    with monkeypatch.context() as patch:
        patch.setattr(form if step == "finish" else outputs.Path, step, kill)
        with pytest.raises(Killed):
            write(path)
    assert write(path).rows == 25
    assert path.read_bytes() == expected
    assert left(path) == [path.name, f"{path.name}.bad"]


def test_an_output_of_the_users_own_is_never_overwritten(interrupted):
    interrupted.write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        write(interrupted)
    assert interrupted.read_text() == "mine"


def _hold(path, is_held, may_end):
    with opened(path):
        is_held.set()
        may_end.wait(60)


def test_a_second_writer_of_the_same_output_is_refused(path, monkeypatch):
    monkeypatch.setattr(whole_files, "PATIENCE", 0.1)
    context = multiprocessing.get_context("fork")
    is_held, may_end = context.Event(), context.Event()
    first = context.Process(target=_hold, args=(path, is_held, may_end))
    first.start()
    try:
        assert is_held.wait(60)
        with pytest.raises(InputError, match="another process"):
            write(path)
    finally:
        may_end.set()
        first.join(60)
    assert first.exitcode == 0  # and what the first wrote is whole
    assert path.exists()


def test_the_lock_of_a_killed_process_is_free(path):
    context = multiprocessing.get_context("fork")
    is_held, may_end = context.Event(), context.Event()
    first = context.Process(target=_hold, args=(path, is_held, may_end))
    first.start()
    assert is_held.wait(60)
    first.kill()
    first.join(60)
    assert write(path).rows == 25


def test_other_kinds_hold_the_numbers_of_the_csv_in_full(tmp_path):
    for name in KINDS:
        write(tmp_path / name)
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    parquet, arrow = pq.read_table(tmp_path / "out.parquet"), feather.read_table(tmp_path / "out.arrow")
    assert parquet.equals(arrow)
    assert parquet.column_names == lines[0] == NAMES
    assert parquet["entropy"].to_pylist()[:4] == columns(0, 4)[3].tolist()
    written = [
        [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row.values()]
        for row in parquet.to_pylist()
    ]
    assert written == lines[1:]


def test_numbers_have_no_dictionary_in_parquet(tmp_path):
    write(tmp_path / "out.parquet")
    group = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0)
    with_dictionary = [
        group.column(place).path_in_schema
        for place in range(group.num_columns)
        if group.column(place).has_dictionary_page
    ]
    assert with_dictionary == ["class", "decision", "reason"]


def test_chunks_become_row_groups_of_some_size(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "ROW_GROUP", 9)
    write(tmp_path / "out.parquet")
    groups = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [9, 3, 8]


HOSTILE = [
    "=1+1",
    "+1+1",
    "-a",
    "@sum",
    "\tx",
    "\rx",
    "−1",
    'quo"ted',
    "a,b",
    "two\nlines",
    "plain",
    "-1",
    "1e5",
]


def test_the_csv_module_reads_what_was_written_but_for_formulas(tmp_path):
    columns = [HOSTILE, HOSTILE[::-1], np.linspace(-1, 1, 13), np.full(13, -np.inf), ["%s"] * 13, [""] * 13]
    found = format_of(tmp_path / "out.csv", NAMES, HOSTILE).chunk(columns).decode()
    rows = list(csv.reader(StringIO(found, newline="")))
    safe = ["'" + name if name[0] in "=+@\t\r−" or name == "-a" else name for name in HOSTILE]
    assert [row[0] for row in rows] == safe
    assert [row[1] for row in rows] == safe[::-1]
    assert [row[2] for row in rows] == [f"{number:.6g}" for number in np.linspace(-1, 1, 13)]
    assert {row[3] for row in rows} == {"-inf"}


def test_numbers_as_classes_stay_numbers(tmp_path):
    columns = [["row 0", "row 1"], [-1, 1], np.zeros(2), np.ones(2), [""] * 2, [""] * 2]
    found = format_of(tmp_path / "out.csv", NAMES, [-1, 1]).chunk(columns)
    assert found == b"row 0,-1,0,1,,\nrow 1,1,0,1,,\n"
    form = format_of(tmp_path / "out.parquet", NAMES, [-1, 1])
    table = pa.ipc.open_stream(form.begin() + form.chunk(columns)).read_all()
    assert table["class"].to_pylist() == [-1, 1]
    mixed = format_of(tmp_path / "out.parquet", NAMES, [-1, "b"])
    columns[1] = [-1, "b"]
    table = pa.ipc.open_stream(mixed.begin() + mixed.chunk(columns)).read_all()
    assert table["class"].to_pylist() == ["-1", "b"]


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"totalcal\[tables\]"):
        format_of(tmp_path / "out.parquet", NAMES, ["a"])
