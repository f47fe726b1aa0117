"""A soak that was killed goes on where it was, and its parts add up."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def journal(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("journal")


def test_what_was_done_is_known_after_a_kill_and_half_a_line_was_never_said(journal, tmp_path):
    path = tmp_path / "soak" / "faults.jsonl"
    first = journal.Journal(path)
    first.note("0/0/kill/fit", "right", "", 1)
    first.note("0/1/clock/grid", "clear", "words", 0)
    path.write_bytes(path.read_bytes() + b'["0/2/ki')
    again = journal.Journal(path)
    assert again.ends == {"0/0/kill/fit": ["right", "", 1], "0/1/clock/grid": ["clear", "words", 0]}
    again.note("0/2/kill/save", "right", "", 0)
    assert "0/2/kill/save" in journal.Journal(path)


def test_parts_are_merged_by_joining_their_files_and_no_case_counts_twice(journal, tmp_path):
    for part, cases in (("a", "01"), ("b", "12")):
        for case in cases:
            journal.Journal(tmp_path / part).note(case, "right", "", 0)
    (tmp_path / "all").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    assert sorted(journal.Journal(tmp_path / "all").ends) == ["0", "1", "2"]
