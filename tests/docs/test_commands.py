"""The commands on the pages exist, with the options that the pages give them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from totalcal.cli import app
from totalcal_lab.cli import app as laboratory

ROOT = Path(__file__).parents[2]
HISTORY = "CHANGELOG.md"
PAGES = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if page.name != HISTORY]
COMMANDS = {"totalcal": get_command(app), "totalcal-lab": get_command(laboratory)}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def code_of(page: Path) -> list[str]:
    """The lines of blocks, and what stands in backticks within sentences."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")  # a line that goes on in the next one
    blocks = re.findall(r"^```(?:bash|text|)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4}(totalcal(?:-lab)? .*)$", text, re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    return [line.strip() for block in blocks for line in block.splitlines()] + indented + spans


def commands_of(page: Path) -> Iterator[list[str]]:
    """Each call of `totalcal` or `totalcal-lab`, as words; comments and placeholders are no words."""
    for line in code_of(page):
        call = re.search(r"(?:^|[ ;=\d])(totalcal(?:-lab)? [a-z].*)", line.split("  #")[0].split(";")[0])
        if call and (line.startswith("totalcal") or re.match(r"[A-Z_]+=", line)):
            yield shlex.split(call[1])


def complaint(words: list[str]) -> str | None:
    """What the command line would say to these words."""
    name, *rest = words
    command: Any = COMMANDS[name]
    while hasattr(command, "commands") and rest:
        name = rest.pop(0)
        if name not in command.commands:
            return None if name.isupper() else f"no command {name!r}"
        command = command.commands[name]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help", "--debug"}
    unknown = [word for word in rest if word.startswith("-") and word.split("=")[0] not in options]
    return f"no option {unknown}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    found = [(words, complaint(words)) for words in commands_of(page)]
    assert [(" ".join(words), said) for words, said in found if said] == []


def test_every_target_of_make_on_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    named = {
        target
        for page in PAGES
        for line in code_of(page)
        if (call := re.match(r"make ((?:[a-z]+ ?)+)", line.split("  #")[0]))
        for target in call[1].split()
    }
    assert named <= targets


def test_every_benchmark_on_the_pages_exists() -> None:
    scripts = {
        name
        for page in PAGES
        for line in code_of(page)
        for name in re.findall(r"\b((?:benchmarks|docs|lab|soak|tests)/[\w/]+\.py)", line)
    }
    assert [name for name in sorted(scripts) if not (ROOT / name).exists()] == []
