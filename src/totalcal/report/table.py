"""The one table: columns, groups of rows, notes; as text or HTML; and rows as CSV.

Names come from users and files, so each writer escapes what its format would take for more than text.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any, ClassVar, NamedTuple, Self

from totalcal.errors import printable


@dataclass(frozen=True, slots=True)
class Entry:
    """What is read; on a page also what a click on the column's head sorts by, and a remark beneath."""

    text: str
    bold: bool = False
    sort: float | str | None = None
    note: str = ""

    @property
    def key(self) -> float | str:
        return self.text if self.sort is None else self.sort

    @property
    def is_number(self) -> bool:
        return isinstance(self.key, int | float)


Row = Sequence[Entry]


class Group(NamedTuple):
    """Rows under a title of their own; an empty title prints none."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Table:
    """The first column names the rows. `name` is for its file, `folded` for the page."""

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    groups: Sequence[Group]
    notes: Sequence[str] = ()
    name: str = ""
    folded: bool = False

    @classmethod
    def of_rows(
        cls, name: str, caption: str, columns: Sequence[str], rows: Sequence[Row], folded: bool = False
    ) -> Self:
        """A table of one group, as a page shows it."""
        return cls(columns, [Group("", rows)], [caption], name, folded)

    @property
    def rows(self) -> Iterator[Row]:
        return (row for group in self.groups for row in group.rows)

    @property
    def caption(self) -> str:
        return " ".join(self.notes)


def as_text(table: Table, width: int = 1000, colour: bool = False) -> str:
    """For a terminal; what is bold carries a star, which survives a pipe."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    def text(content: str, style: str = "") -> Text:
        return Text(printable(content), style)

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(table.columns):
        drawn.add_column(text(title), justify="left" if number == 0 else "right", no_wrap=True)
    for group in table.groups:
        if group.title:
            drawn.add_section()
            drawn.add_row(text(group.title, "dim italic"))
        for name, *entries in group.rows:
            starred = (
                text(entry.text, "bold" * entry.bold).append("  " if not entry.bold else " *")
                for entry in entries
            )
            drawn.add_row(text(name.text), *starred)
    paper = StringIO()
    console = Console(file=paper, width=width, force_terminal=colour, no_color=not colour, emoji=False)
    console.print(drawn)
    for note in table.notes:
        console.print(text(note), soft_wrap=True)
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())


def as_html(table: Table, label: str = "table") -> str:
    """A figure that scrolls sideways; a click on a column's head sorts, by the page's script."""
    numeric = [any(row[column].is_number for row in table.rows) for column in range(len(table.columns))]
    head = "".join(
        f'<th scope="col" aria-sort="none"{_NUMBER * is_number}>'
        f'<button type="button">{escape(title)}</button></th>'
        for title, is_number in zip(table.columns, numeric, strict=True)
    )
    lines = []
    for group in table.groups:
        if group.title:
            span = f'<th scope="rowgroup" colspan="{len(table.columns)}">{escape(group.title)}</th>'
            lines.append(f"<tr>{span}</tr>")
        for name, *others in group.rows:
            named = _html_entry(name, "th", ' scope="row"')
            lines.append(f"<tr>{named}{''.join(_html_entry(entry, 'td') for entry in others)}</tr>")
    body = "\n".join(lines)
    caption = escape(table.caption)
    figure = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
    if table.folded:
        return f"<details>\n<summary>{caption}</summary>\n<figure>\n{figure}\n</figure>\n</details>"
    return f"<figure>\n{figure}\n<figcaption>{caption}</figcaption>\n</figure>"


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    r"""Rows as CSV, in which a spreadsheet must not take a name for a formula.

    >>> csv_text([["a,b", "=1+1", -1], ["two\rlines", "", 0.5]])
    '"a,b",\'=1+1,-1\n"two\rlines",,0.5\n'
    """
    lines = []
    for row in rows:
        paper = StringIO()
        csv.writer(paper, lineterminator="\r\n").writerow(
            map(without_formula, row)
        )  # so that both are quoted
        lines.append(paper.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def without_formula(value: Any) -> Any:
    """A text that a spreadsheet would run gets an apostrophe in front; numbers stay numbers, as text too.

    >>> without_formula("=1+1"), without_formula("etp"), without_formula(-0.5), without_formula("-1")
    ("'=1+1", 'etp', -0.5, '-1')
    """
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _PLAIN.fullmatch(value)
    return f"'{value}" if is_formula else value


_FORMULA = ("=", "+", "-", "−", "@", "\t", "\r")
_PLAIN = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NUMBER = ' class="number"'


def _html_entry(entry: Entry, tag: str, attributes: str = "") -> str:
    key = entry.sort if isinstance(entry.sort, str | None) else f"{entry.sort:.7g}"
    given = "" if key is None else f' data-key="{escape(key)}"'
    text = f"<strong>{escape(entry.text)}</strong>" if entry.bold else escape(entry.text)
    note = f"<small>{escape(entry.note)}</small>" if entry.note else ""
    return f"<{tag}{attributes}{given}{_NUMBER * entry.is_number}>{text}{note}</{tag}>"
