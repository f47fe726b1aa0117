"""Markdown pages with blocks that come from records: what stands between the marks is never typed by hand.

<!-- results: table records/fashion.jsonl -->
…
<!-- end of results -->
"""

import re
from collections.abc import Iterable
from pathlib import Path

from totalcal.errors import InputError, UnknownNameError
from totalcal.report.markdown_tables import BLOCKS
from totalcal.whole_files import write_whole

_END = "<!-- end of results -->"
_BLOCK = re.compile(rf"(<!-- results: ([^\n]+) -->\n)(.*?){_END}", re.DOTALL)


def pages_beneath(paths: Iterable[Path]) -> list[Path]:
    """The pages named, and all Markdown files of folders named."""
    found = [page for path in paths for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]
    missing = [page for page in found if not page.is_file()]
    if missing or not found:
        raise InputError(f"there is no page at {', '.join(map(str, missing or paths))}.")
    return found


def stale_pages(pages: Iterable[Path]) -> list[Path]:
    """Those that do not say what their records say."""
    return [page for page in pages if filled(page) != page.read_text(encoding="utf-8")]


def fill(pages: Iterable[Path]) -> list[Path]:
    """Bring pages up to date; returns those that changed."""
    stale = stale_pages(pages)
    for page in stale:
        write_whole(page, filled(page))
    return stale


def filled(page: Path) -> str:
    """The text of a page with every block made anew."""
    text = page.read_text(encoding="utf-8")
    if text.count("<!-- results: ") != len(_BLOCK.findall(text)):
        raise InputError(f"a block of {page} is not closed: it ends with a line {_END!r}.")
    return _BLOCK.sub(lambda found: f"{found[1]}\n{_content(page, found[2])}\n\n{_END}", text)


def _content(page: Path, request: str) -> str:
    name, file, *arguments = request.split()
    if name not in BLOCKS:
        raise UnknownNameError("block of results", name, BLOCKS)
    records = page.parent / file
    if not records.exists():
        raise InputError(f"there are no records at {records}. Do: totalcal results gather RUNS {records}")
    return BLOCKS[name](records, arguments)
