"""A file of lines, whatever moment a writer was killed at."""

import json

import pytest

from totalcal.records.lines import append_line, read_lines, write_lines


def test_lines_come_back_in_order(tmp_path):
    file = tmp_path / "lines.jsonl"
    for number in range(3):
        append_line(file, {"number": number, "name": "π"})
    assert read_lines(file) == [{"number": number, "name": "π"} for number in range(3)]


def test_no_file_has_no_lines(tmp_path):
    assert read_lines(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("kept", range(1, 15))
def test_a_line_cut_short_anywhere_takes_no_other_with_it(tmp_path, kept):
    file = tmp_path / "lines.jsonl"
    append_line(file, {"number": 0})
    torn = json.dumps({"number": 12345}).encode()[:kept]
    with file.open("ab") as handle:
        handle.write(torn)
    append_line(file, {"number": 2})
    assert read_lines(file) == [{"number": 0}, {"number": 2}]


def test_written_lines_replace_what_was_there(tmp_path):
    file = tmp_path / "lines.jsonl"
    append_line(file, {"number": 7})
    write_lines(file, [{"number": 1}, {"number": 2}])
    assert read_lines(file) == [{"number": 1}, {"number": 2}]
