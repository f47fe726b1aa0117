"""The laboratory is made of what every user of totalcal has."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import totalcal_lab

SOURCES = sorted(file for file in Path(totalcal_lab.__path__[0]).rglob("*") if file.suffix in (".py", ".pyi"))


def imported(source: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "totalcal":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("totalcal."))


def is_public(module: str, name: str) -> bool:
    """Of the package, of one of its rooms, or a formula of `functional`."""
    if not name:
        return False
    depth = 2 if module.startswith("totalcal.functional") else 1
    names = getattr(import_module(module), "__all__", None)
    return module.count(".") <= depth and (name in names if names is not None else not name.startswith("_"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_laboratory_uses_public_names_of_totalcal_only(source: Path) -> None:
    assert [found for found in imported(source) if not is_public(*found)] == []
