"""Pages, help texts, docstrings and messages speak the field's language."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("docs/**/*.py"),
    *ROOT.glob("benchmarks/*.py"),
    *ROOT.glob("src/**/*.py"),
    *ROOT.glob("src/**/*.html"),
    *ROOT.glob("docs/results/*.html"),
]
INSTEAD = {
    r"\bstrang(e|er|ers|est|eness)\b": "out-of-distribution, unfamiliar",
    r"\bforeign\b": "external, out-of-distribution",
    r"\bout[- _]of[- _]domain\b|\bin-domain\b": "out-of-distribution, in-distribution",
    r"\brivals?\b": "baseline",
    r"\blaws?\b(?! of total variance)": "distribution",
    r"\b(one|one draw|a line|a number|seconds|columns?|rows?|vector|file|formula|idea) an? "
    r"(input|row|class|epoch|file|function|pair|head|model|type|seed|run|request|pass)\b": "per",
    r"\bpredict_alike\b": "predict_shared",
    r"\bunless told\b": "unless given",
}
HISTORY = {"CHANGELOG.md"}
READ_FROM_BEFORE = {
    ("grid.py", "rivals"),  # `--models rivals` stays
    ("formats.md", "rivals"),
    ("store.py", "out-of-domain"),  # records of 0.1
    ("context.py", "law"),  # weights in files of 0.1
}


@pytest.mark.parametrize("pattern", INSTEAD)
def test_no_word_of_our_own_stands_where_the_field_has_one(pattern: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match.group()!r}, say {INSTEAD[pattern]}"
        for file in FILES
        if file.name not in HISTORY
        for match in re.finditer(pattern, file.read_text(encoding="utf-8"))
        if (file.name, match.group()) not in READ_FROM_BEFORE
    ]
    assert found == []
