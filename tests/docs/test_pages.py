"""The pages in docs name what exists."""

import csv
import pydoc
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from totalcal import __version__

ROOT = Path(__file__).parents[2]
LINKS_INTO_THE_SITE = ("index.md", "total_calibration.md", "formats.md", "decisions.md")
PAGES = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")),
    *(page for page in (ROOT / "docs").glob("*.md") if page.name not in LINKS_INTO_THE_SITE),
]
NOTATION = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
NAMED = re.findall(r"\[`([\w.]+)`\]\(\.\./((?:lab/)?src/[\w/.]+)\)", NOTATION)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page):
    links = re.findall(r"\]\((?!http)([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(("name", "file"), NAMED)
def test_every_function_of_the_table_of_formulas_is_where_the_page_says(name, file):
    package = Path(file).parts[Path(file).parts.index("src") + 1]
    found = pydoc.locate(f"{package}.{name}")
    assert found is not None
    module = getattr(found, "__module__", None)
    home = sys.modules[module].__file__ if module and module != "builtins" else None
    assert home is None or Path(home) == (ROOT / file).resolve()


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_package_that_we_ask_for_is_pinned_and_has_its_licence_listed():
    product, laboratory = (
        tomllib.loads((ROOT / house / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for house in ("", "lab")
    )
    extras = product["optional-dependencies"]
    (everything,) = (Requirement(line) for line in extras["all"])
    lines = [
        *product["dependencies"],
        *(line for extra in everything.extras for line in extras[extra]),
        *laboratory["dependencies"],
    ]
    wanted = {canonicalize_name(Requirement(line).name) for line in lines} - {"totalcal"}
    pins = [(ROOT / "deploy" / name).read_text(encoding="utf-8") for name in ("serve.txt", "pinned.txt")]
    pinned = re.findall(r"^(\S+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", "\n".join(pins), re.M)
    assert len(pinned) == "".join(pins).count("==")
    assert "-r serve.txt\n" in pins[1]
    with (ROOT / "deploy" / "licences.csv").open(encoding="utf-8", newline="") as file:
        listed = [row["package"] for row in csv.DictReader(file)]
    assert wanted <= set(pinned)
    assert sorted(pinned) == listed
