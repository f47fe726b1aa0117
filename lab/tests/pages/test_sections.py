"""The section that docs/report.md shows how to write."""

import re
from pathlib import Path
from typing import Any

import pytest

from totalcal_lab.pages.boards import boards

PAGE = Path(__file__).parents[3] / "docs" / "report.md"


def test_the_section_of_the_page_works(runs: Path) -> None:
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    (code,) = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    (board,) = boards(runs)
    (table,) = names["epochs_section"](board).blocks
    assert [[entry.text for entry in row] for row in table.rows] == [["softmax", "2"]] * 2 + [
        ["etp", "2"]
    ] * 2
