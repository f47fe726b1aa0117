"""A file of lines, whatever moment a writer was killed at."""

import json

import pytest

from totalcal.errors import InputError
from totalcal.records.store import append_line, read_lines, write_lines


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


LINE = {
    "name": "π} {",
    "settings": {"a": [1, -2.5e-3], "b": {}},
    "yes": True,
    "none": None,
    "text": "\\u00e9\n",
}


def test_a_line_cut_short_at_any_byte_is_left_out_and_takes_no_other_with_it(tmp_path):
    whole = json.dumps(LINE, ensure_ascii=False).encode()
    file = tmp_path / "lines.jsonl"
    unclear = []
    for kept in range(1, len(whole)):
        file.write_bytes(whole + b"\n" + whole[:kept] + b"\n" + whole + b"\n")
        try:
            assert read_lines(file) == [LINE, LINE]
        except InputError:
            unclear.append(whole[:kept])
    assert unclear == [b'{"name": "\xcf\x80}']  # just behind a } inside of a string: it says so


@pytest.mark.parametrize(
    "line",
    [
        *(
            b'{"seed" 1}',
            b'{"name": "iris}',
            b'{"a": 1}}',
            b"[1, 2]",
            b"7",
            b"nonsense",
            b'\xff{"a": 1}',
            b'"a"',
        ),
        b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"a": ' + b"1" * 10_000 + b"}",
    ],
)
def test_any_other_damage_is_named_with_file_and_line(tmp_path, line):
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'{"seed": 0}\n' + line + b'\n{"seed": 1}\n')
    with pytest.raises(InputError, match=r"lines\.jsonl, line 2"):
        read_lines(file)


def test_zeros_that_a_power_cut_left_are_no_line(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'{"seed": 0}\n' + b"\0" * 50)
    assert read_lines(file) == [{"seed": 0}]
