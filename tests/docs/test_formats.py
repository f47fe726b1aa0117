"""docs/grid.md and docs/formats.md name every file that a run leaves, and every key in it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from totalcal.report import SCORES
from totalcal_lab.records.folders import RunFolder

DOCS = Path(__file__).parents[2] / "docs"
GRID = (DOCS / "grid.md").read_text(encoding="utf-8")
FORMATS = (DOCS / "formats.md").read_text(encoding="utf-8")
RECORDS = sorted((DOCS / "results" / "records").glob("*.jsonl"))
OF_STUDIES = {"hours", "learning", "people", "sizes"}  # and not of runs
RECORDS = [file for file in RECORDS if file.stem not in OF_STUDIES]
OF_THE_TRUTH = {"kl", "risk_correlation"}  # not in records: `totalcal-lab truth generated` prints them


def section(title: str) -> str:
    return GRID.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def undocumented(keys: set[str], text: str) -> list[str]:
    """Keys that no word in backticks stands for; a word in capitals stands for any name or number."""
    words = [re.escape(word) for word in re.findall(r"`([^`\n]+)`", text)]
    patterns = [re.sub(r"[A-Z]{3,}", "[^/]+", word) for word in words]
    return sorted(key for key in keys if not any(re.fullmatch(pattern, key) for pattern in patterns))


def keys_of(kind: str) -> set[str]:
    """The keys of all committed lines: `records`, `corruptions` or `domain`."""
    found: set[str] = set()
    for file in RECORDS:
        if kind == (file.suffixes[0].lstrip(".") if len(file.suffixes) > 1 else "records"):
            for line in file.read_text(encoding="utf-8").splitlines():
                found |= json.loads(line).keys()
    return found


def test_every_key_of_a_record_is_on_the_page() -> None:
    keys = keys_of("records") | SCORES.keys() - OF_THE_TRUTH - {"aupr_out", "aupr_in", "fpr95"}
    assert "nll" in keys
    assert undocumented(keys, section("records.jsonl")) == []


@pytest.mark.parametrize("kind", ["corruptions", "domain"])
def test_every_key_of_a_benchmark_is_on_the_page(kind: str) -> None:
    keys = keys_of(kind)
    assert "seed" in keys
    assert undocumented(keys, section("corruptions.jsonl and domain.jsonl")) == []


def test_every_file_of_a_run_is_on_the_page(tmp_path: Path) -> None:
    files = set(names_in(RunFolder(tmp_path)))
    assert {"config.json", "records.jsonl", "done"} <= files
    assert undocumented(files, section("A run is a folder")) == []
    assert undocumented(files, FORMATS) == []


def names_in(folder: RunFolder) -> Iterator[str]:
    yield from (getattr(folder, name).name for name in dir(folder) if name.endswith("_file"))
    yield folder.timing.file.name
