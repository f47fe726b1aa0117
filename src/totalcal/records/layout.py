"""A table as it is printed: a header, sections of rows, notes; as text, Markdown or LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import NamedTuple


class Entry(NamedTuple):
    """One cell of a printed table."""

    text: str
    bold: bool = False


class Section(NamedTuple):
    """Rows under a title of their own; an empty title prints none."""

    title: str
    rows: Sequence[Sequence[Entry]]


@dataclass(frozen=True)
class Layout:
    """The first column names the rows."""

    header: Sequence[str]
    sections: Sequence[Section]
    notes: Sequence[str] = field(default=())


def as_text(layout: Layout, width: int = 1000, colour: bool = False) -> str:
    """For a terminal; what is bold carries a star, which survives a pipe."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(layout.header):
        table.add_column(title, justify="left" if number == 0 else "right", no_wrap=True)
    for section in layout.sections:
        if section.title:
            table.add_section()
            table.add_row(f"[dim italic]{section.title}[/]")
        for row in section.rows:
            table.add_row(row[0].text, *(_starred(entry) for entry in row[1:]))
    paper = StringIO()
    console = Console(file=paper, width=width, force_terminal=colour, no_color=not colour, emoji=False)
    console.print(table)
    for note in layout.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())


def as_markdown(layout: Layout) -> str:
    """A pipe table; a section's title is a row of its own."""
    columns = len(layout.header)
    lines = [_pipes(layout.header), _pipes(["---", *["---:"] * (columns - 1)])]
    for section in layout.sections:
        if section.title:
            lines.append(_pipes([f"*{section.title}*", *[""] * (columns - 1)]))
        for row in section.rows:
            lines.append(_pipes([f"**{entry.text}**" if entry.bold else entry.text for entry in row]))
    return "\n".join([*lines, *(f"\n{note}" for note in layout.notes)])


def as_latex(layout: Layout) -> str:
    """A booktabs tabular."""
    columns = len(layout.header)
    lines = [rf"\begin{{tabular}}{{l{'c' * (columns - 1)}}}", r"\toprule"]
    lines.append(_ampersands([_escaped(title) for title in layout.header]))
    for section in layout.sections:
        lines.append(r"\midrule")
        if section.title:
            lines.append(rf"\multicolumn{{{columns}}}{{c}}{{{_escaped(section.title)}}} \\")
        lines += [_ampersands([_latex_entry(entry) for entry in row]) for row in section.rows]
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in layout.notes)]
    return "\n".join(lines)


def _starred(entry: Entry) -> str:
    return f"[bold]{entry.text}[/] *" if entry.bold else f"{entry.text}  "


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_entry(entry: Entry) -> str:
    if "±" in entry.text:
        number = entry.text.replace("±", r"\pm")
        return rf"$\mathbf{{{number}}}$" if entry.bold else f"${number}$"
    return rf"\textbf{{{_escaped(entry.text)}}}" if entry.bold else _escaped(entry.text)


def _escaped(text: str) -> str:
    return "".join(rf"\{letter}" if letter in "&%$#_{}" else letter for letter in text)


LAYOUTS = {"text": as_text, "markdown": as_markdown, "latex": as_latex}
