"""The code of the tutorials runs as it stands, block after block."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("tutorial_*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_tutorial_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert list(tmp_path.glob("*.totalcal"))


def test_there_are_three_tutorials():
    assert [page.stem for page in PAGES] == ["tutorial_gate", "tutorial_table", "tutorial_trained_net"]
