"""ARCHITECTURE.md names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TASKS = PAGE.partition("## Ten tasks and where")[2].partition("\n## ")[0]
JOURNEYS = PAGE.partition("## Three journeys")[2].partition("\n## ")[0]


def test_there_are_ten_tasks():
    assert len(re.findall(r"^\| a new ", TASKS, re.MULTILINE)) == 10


def test_every_file_of_the_tasks_and_journeys_exists():
    files = re.findall(r"`([\w/]+\.py)`", TASKS + JOURNEYS)
    assert len(files) > 25
    assert [file for file in files if not (ROOT / "src" / "totalcal" / file).exists()] == []
