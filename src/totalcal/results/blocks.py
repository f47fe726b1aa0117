"""What a page may ask for: `<!-- results: NAME FILE ARGUMENTS -->`, the file relative to the page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType

from totalcal.errors import InputError, UnknownNameError
from totalcal.records.corruptions import corruption_columns, corruption_layout
from totalcal.records.layout import as_markdown
from totalcal.records.lines import read_lines
from totalcal.records.store import read
from totalcal.records.table import result_columns, result_layout
from totalcal.results.gaps import gap_layout
from totalcal.results.gathering import corruptions_file, timing_file
from totalcal.results.hashes import hashes_layout
from totalcal.results.hours import hours_layout
from totalcal.results.scores import choice_layout, scores_layout

Block = Callable[[Path, Sequence[str]], str]


def block(name: str, records: Path, arguments: Sequence[str]) -> str:
    """The Markdown of one block."""
    if name not in BLOCKS:
        raise UnknownNameError("block of results", name, BLOCKS)
    if not records.exists():
        raise InputError(f"there are no records at {records}. Do: totalcal results gather RUNS {records}")
    return BLOCKS[name](records, arguments)


def _table(records: Path, arguments: Sequence[str]) -> str:
    """The paper's Table 2, with its figures beside ours."""
    return as_markdown(result_layout(result_columns(read(records))))


def _verdict(records: Path, arguments: Sequence[str]) -> str:
    """Who is not beaten, in words, of the models named; of all of them if none is."""
    lines = [record for record in read(records) if not arguments or record["model"] in arguments]
    return "\n\n".join(column.words for column in result_columns(lines))


def _scores(records: Path, arguments: Sequence[str]) -> str:
    """The keys named, of those tasks that have all of them."""
    lines = [record for record in read(records) if all(key in record for key in arguments)]
    if not lines:
        raise InputError(f"no record in {records} has all of: {', '.join(arguments)}.")
    return as_markdown(scores_layout(lines, arguments))


def _choice(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(choice_layout(read(records), arguments))


def _gaps(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(gap_layout(read(records)))


def _corruptions(records: Path, arguments: Sequence[str]) -> str:
    """The paper's Table 4."""
    return as_markdown(corruption_layout(corruption_columns(read(corruptions_file(records)))))


def _hours(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(hours_layout(read_lines(timing_file(records))))


def _hashes(records: Path, arguments: Sequence[str]) -> str:
    return as_markdown(hashes_layout(read(records)))


BLOCKS: MappingProxyType[str, Block] = MappingProxyType(
    {
        "table": _table,
        "verdict": _verdict,
        "scores": _scores,
        "choice": _choice,
        "gaps": _gaps,
        "corruptions": _corruptions,
        "hours": _hours,
        "hashes": _hashes,
    }
)
