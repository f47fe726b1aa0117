"""A table as Markdown, LaTeX and CSV: names are not to be trusted."""

import csv
import io

import pytest

from totalcal.report import Entry, Group, Table
from totalcal_lab.records.formats import as_csv, as_latex, as_markdown

HOSTILE = "a[/red][b]\x1b[31m\x9b2J\n\u202e|&%$#_{}~^\\<script>"


@pytest.fixture
def table() -> Table:
    return Table(
        [HOSTILE, HOSTILE], [Group(HOSTILE, [[Entry(HOSTILE), Entry(HOSTILE, bold=True)]])], [HOSTILE]
    )


def test_markdown_stays_one_line_per_row(table: Table) -> None:
    lines = as_markdown(table).splitlines()
    assert [line.startswith("|") for line in lines] == [True, True, True, True, False, False]
    assert all(line.count("|") - line.count(r"\|") == 3 for line in lines[:4])


def test_latex_escapes_everything_that_it_would_run(table: Table) -> None:
    rows = [line for line in as_latex(table).splitlines() if line.startswith("a[")]
    for row in rows:
        for entry in row.removesuffix(r" \\").split(" & "):
            assert r"\textbackslash{}<script>" in entry
            assert r"\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}" in entry


def test_a_measurement_is_mathematics_and_a_name_with_its_sign_is_not() -> None:
    table = Table.of_rows("", "", ["", ""], [[Entry(r"\input ± x"), Entry("7.1 ± 0.1")]])
    assert r"\textbackslash{}input $\pm$ x & $7.1 \pm 0.1$ \\" in as_latex(table).splitlines()


def test_lines_become_rows_of_a_spreadsheet_which_runs_no_name() -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv([{"model": "=1+1", "mean": -0.5}])))
    assert row == {"model": "'=1+1", "mean": "-0.5"}
