"""The pages in docs name what exists."""

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
PAGES = [
    ROOT / "CONTRIBUTING.md",
    *(
        ROOT / "docs" / name
        for name in ("notation.md", "adding_a_model.md", "domain.md", "toys.md", "which_model.md")
    ),
]
NOTATION = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
NAMED = re.findall(r"\[`([\w.]+)`\]\((\.\./src/[\w/.]+)\)", NOTATION)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page):
    links = re.findall(r"\]\((?!http)([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(("name", "file"), NAMED)
def test_every_function_of_the_table_of_formulas_is_where_the_page_says(name, file):
    found = pydoc.locate(f"totalcal.{name}")
    assert found is not None
    module = getattr(found, "__module__", None)
    home = sys.modules[module].__file__ if module and module != "builtins" else None
    assert home is None or Path(home) == (ROOT / "docs" / file).resolve()


def test_the_table_of_formulas_is_found_at_all():
    assert len(NAMED) > 30


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_package_that_we_ask_for_is_pinned_and_has_its_licence_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = (Requirement(line) for line in extras["all"])
    lines = [*project["dependencies"], *(line for extra in everything.extras for line in extras[extra])]
    wanted = {canonicalize_name(Requirement(line).name) for line in lines}
    pinned = re.findall(r"^(\S+)==\S+$", (ROOT / "deploy" / "pinned.txt").read_text(encoding="utf-8"), re.M)
    listed = re.findall(
        r"^\| (\S+) \| \d\S* \|", (ROOT / "docs" / "licences.md").read_text(encoding="utf-8"), re.M
    )
    assert len(wanted) > 15
    assert wanted <= set(pinned)
    assert pinned == listed
