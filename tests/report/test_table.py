"""One table, its writers, names that are not to be trusted."""

import csv
import io
import re

import pytest

from totalcal.report.table import (
    Entry,
    Group,
    Table,
    as_html,
    as_text,
    csv_text,
    printable,
    without_formula,
)

HOSTILE = "a[/red][b]\x1b[31m\x9b2J\n\u202e|&%$#_{}~^\\<script>"


@pytest.fixture
def table() -> Table:
    return Table(
        [HOSTILE, HOSTILE], [Group(HOSTILE, [[Entry(HOSTILE), Entry(HOSTILE, bold=True)]])], [HOSTILE]
    )


@pytest.mark.parametrize("colour", [False, True])
def test_a_name_can_neither_crash_nor_colour_nor_clear_a_terminal(table: Table, colour: bool) -> None:
    shown = as_text(table, colour=colour)
    ours = re.sub(r"\x1b\[[\d;]*m", "", shown) if colour else shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(ours)
    assert "31m\\x9b2J" in ours
    assert ours.count("a[/red][b]") == 6  # as it is, wherever it stands
    assert ("\x1b[31m" in shown) is False


def test_html_escapes_names_and_sorts_by_what_it_is_told(table: Table) -> None:
    assert "<script>" not in as_html(table, label=HOSTILE)
    entries = [[Entry("etp"), Entry("7.1 ± 0.1", bold=True, sort=0.071, note="paper 7.9")]]
    shown = as_html(Table.of_rows("", "A caption", ["model", "error"], entries))
    entry = '<td data-key="0.071" class="number"><strong>7.1 ± 0.1</strong><small>paper 7.9</small></td>'
    assert entry in shown
    assert "<figcaption>A caption</figcaption>" in shown
    assert "<details>" in as_html(Table.of_rows("", "A caption", ["model", "error"], entries, folded=True))


@pytest.mark.parametrize("start", ["=", "+", "-", "−", "@", "\t", "\r"])
def test_a_spreadsheet_runs_no_name(start: str) -> None:
    name = f'{start}HYPERLINK("x","y")'
    (row,) = csv.DictReader(io.StringIO(csv_text([["model", "mean"], [name, -0.5]])))
    assert row == {"model": f"'{name}", "mean": "-0.5"}
    assert without_formula(-1) == -1


def test_letters_of_every_language_stay_as_they_are() -> None:
    assert printable("π ± 漢字 é 🙂") == "π ± 漢字 é 🙂"
