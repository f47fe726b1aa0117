"""The code of the tutorials runs as it stands, block after block."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("tutorial_*.md"))


def run_blocks(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    return names


def test_the_page_about_the_domain_runs_and_says_which_layers_are_taken(capsys):
    names = run_blocks(PAGES[0].with_name("domain.md"))
    assert capsys.readouterr().out.strip() == "['inputs (vector, 64)', 'relu1 (vector, 32)']"
    assert names["verdict"].auroc > 0.9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_tutorial_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)
    assert list(tmp_path.glob("*.totalcal"))


def test_there_are_three_tutorials():
    assert [page.stem for page in PAGES] == ["tutorial_gate", "tutorial_table", "tutorial_trained_net"]
