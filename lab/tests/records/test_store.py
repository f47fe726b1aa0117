"""Records and files of lines, whatever moment a writer was killed at."""

import json
import math
import subprocess
import sys

import pytest

from totalcal.errors import InputError
from totalcal_lab.records import append, read_records
from totalcal_lab.records.labels import latest
from totalcal_lab.records.store import append_line, read_lines, write_lines

RECORD = {"task": "iris", "preset": "paper", "model": "etp", "seed": 0, "epochs": 3, "error": 0.125}


def test_what_is_appended_is_read_back_in_order(tmp_path):
    path = tmp_path / "runs" / "records.jsonl"
    for seed in range(3):
        append(path, {**RECORD, "seed": seed})
    assert read_records(path) == [{**RECORD, "seed": seed} for seed in range(3)]


def test_a_score_that_is_not_finite_becomes_nan_and_the_file_stays_json(tmp_path):
    path = tmp_path / "records.jsonl"
    append(path, {**RECORD, "nll": math.inf, "auroc/mnist": math.nan, "note": None})
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["nll"] is None
    (record,) = read_records(path)
    assert math.isnan(record["nll"])
    assert math.isnan(record["auroc/mnist"])
    assert record["note"] is None


def test_a_line_torn_by_a_killed_writer_costs_that_line_only(tmp_path):
    path = tmp_path / "records.jsonl"
    append(path, RECORD)
    with path.open("a") as file:
        file.write('{"task": "iris", "pre')
    append(path, {**RECORD, "seed": 1})
    assert [record["seed"] for record in read_records(path)] == [0, 1]


@pytest.mark.parametrize("line", ['{"task": nonsense}', "[1, 2]"])
def test_a_line_that_was_never_a_record_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "records.jsonl"
    append(path, RECORD)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_records(path)


def test_a_record_without_its_identity_is_refused(tmp_path):
    with pytest.raises(InputError, match="seed is missing"):
        append(tmp_path / "records.jsonl", {key: RECORD[key] for key in RECORD if key != "seed"})


def test_a_rerun_replaces_the_older_record():
    assert latest([RECORD, {**RECORD, "error": 0.5}]) == [{**RECORD, "error": 0.5}]


def test_several_processes_can_append_at_once(tmp_path):
    program = (
        "import sys; from totalcal_lab.records import append\n"
        "for epoch in range(50): append(sys.argv[1], "
        "{'task': 't', 'preset': 'p', 'model': 'm', 'seed': int(sys.argv[2]), 'epochs': epoch})"
    )
    path = tmp_path / "records.jsonl"
    workers = [subprocess.Popen([sys.executable, "-c", program, path, str(seed)]) for seed in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert len(latest(read_records(path), ("seed", "epochs"))) == 150


def test_reading_records_never_loads_torch():
    program = "import sys, totalcal_lab.records, totalcal_lab.records.paper; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


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
