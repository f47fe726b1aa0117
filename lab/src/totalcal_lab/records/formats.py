"""A table as Markdown, LaTeX or CSV.

Names come from users and files, so each writer escapes what its format would take for more than text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from totalcal.errors import printable
from totalcal.report import Entry, Table, as_html, as_text, csv_text

NOTHING = Entry("–", sort="")


def as_markdown(table: Table) -> str:
    """A pipe table; a group's title is a row of its own."""
    others = len(table.columns) - 1
    lines = [_pipes(table.columns), _pipes(["---", *["---:"] * others])]
    for group in table.groups:
        if group.title:
            lines.append(_pipes([f"*{group.title}*", *[""] * others]))
        for row in group.rows:
            lines.append(_pipes([f"**{entry.text}**" if entry.bold else entry.text for entry in row]))
    return "\n".join([*lines, *(f"\n{printable(note)}" for note in table.notes)])


def as_latex(table: Table) -> str:
    """A booktabs tabular; the notes are comments."""
    columns = len(table.columns)
    lines = [
        rf"\begin{{tabular}}{{l{'c' * (columns - 1)}}}",
        r"\toprule",
        _ampersands(map(_latex, table.columns)),
    ]
    for group in table.groups:
        lines.append(r"\midrule")
        if group.title:
            lines.append(rf"\multicolumn{{{columns}}}{{c}}{{{_latex(group.title)}}} \\")
        lines += [_ampersands(map(_latex_entry, row)) for row in group.rows]
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {printable(note)}" for note in table.notes)]
    return "\n".join(lines)


def as_csv(lines: Sequence[Mapping[str, Any]]) -> str:
    """Flat lines for a spreadsheet."""
    header = list(lines[0]) if lines else []
    return csv_text([header, *([line.get(key) for key in header] for line in lines)]).rstrip("\n")


WRITERS = {"text": as_text, "markdown": as_markdown, "latex": as_latex, "html": as_html}

_MEASUREMENT = re.compile(r"[\d.]+ ± [\d.]+")
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{NO-BREAK SPACE}": "~", "±": r"$\pm$", "−": "$-$", "–": "--",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "●": r"$\bullet$", "○": r"$\circ$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip


def _pipes(entries: Sequence[str]) -> str:
    return "|" + "|".join(printable(entry).replace("|", r"\|") for entry in entries) + "|"


def _ampersands(entries: Iterator[str]) -> str:
    return " & ".join(entries) + r" \\"


def _latex_entry(entry: Entry) -> str:
    if _MEASUREMENT.fullmatch(entry.text):
        number = entry.text.replace("±", r"\pm")
        return rf"$\mathbf{{{number}}}$" if entry.bold else f"${number}$"
    return rf"\textbf{{{_latex(entry.text)}}}" if entry.bold else _latex(entry.text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in printable(text))
