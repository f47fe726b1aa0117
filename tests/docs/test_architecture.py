"""ARCHITECTURE.md names files that exist, and tests stand where the source does."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TASKS = PAGE.partition("## Ten tasks and where")[2].partition("\n## ")[0]
JOURNEYS = PAGE.partition("## Three journeys")[2].partition("\n## ")[0]
ROOMS = PAGE.partition("| room | what it holds |")[2]


def test_there_are_ten_tasks():
    assert len(re.findall(r"^\| a new ", TASKS, re.MULTILINE)) == 10


def test_every_file_of_the_tasks_and_journeys_exists():
    files = re.findall(r"`([\w/]+\.py)`", TASKS + JOURNEYS)
    assert len(files) > 25
    assert [file for file in files if not (ROOT / "src" / "totalcal" / file).exists()] == []


def test_the_table_of_rooms_has_every_room_and_fits_on_a_screen():
    rooms = {name.rstrip("/") for name in re.findall(r"`([\w.]+/?)`", ROOMS)}
    modules = {path.name for path in (ROOT / "src" / "totalcal").iterdir()}
    assert {name for name in modules if not name.startswith("_") and name != "py.typed"} <= rooms
    assert ROOMS.count("\n|") <= 40


def test_tests_mirror_the_source():
    """tests/X/test_Y.py is for src/totalcal/X/Y; an aspect may follow: test_process_moments.py."""
    own_kinds = {"contracts", "docs", "faults"}
    astray = []
    for test in (ROOT / "tests").rglob("test_*.py"):
        place = test.relative_to(ROOT / "tests")
        words = test.stem.split("_")[1:]
        names = {"_".join(words[:length]) for length in range(1, len(words) + 1)}
        room = ROOT / "src" / "totalcal" / place.parent
        if place.parts[0] not in own_kinds and not names & {path.stem for path in room.glob("*.*")}:
            astray.append(str(place))
    assert astray == []
