"""The site builds without a warning and offline; the gallery runs; every name and command has its place."""

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import totalcal

ROOT = Path(__file__).parents[2]
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*.py"))
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))
PACKAGE = ROOT / "src" / "totalcal"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with warnings as errors: a link, an anchor or a page that does not exist fails it."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def pages(site: Path) -> list[Path]:
    return [
        page
        for page in site.rglob("*.html")
        if page.name != "404.html" and "results/fashion" not in str(page)
    ]


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"""<(?:script|img|iframe)[^>]*\bsrc=["'](?:https?:)?//|<link[^>]*stylesheet[^>]*href=["']http"""
    )
    assert [page.name for page in pages(site) if fetched.search(page.read_text(encoding="utf-8"))] == []


def test_every_public_name_has_its_place_in_the_reference(site: Path) -> None:
    html = (site / "reference" / "api.html").read_text(encoding="utf-8")
    homes = {"__version__": "totalcal.version", **SITE["public_names"]()}
    assert set(totalcal.__all__) <= homes.keys()
    assert [name for name, home in homes.items() if f'id="{home}"' not in html] == []


def test_whatever_has_no_underscore_is_in_the_reference(site: Path) -> None:
    """Functions, classes, what an `__all__` lists, and the methods of the classes that users hold."""
    html = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    entries = set(re.findall(r'id="(totalcal[\w.]*)"', html))
    names = {name for file in sorted(PACKAGE.rglob("*.py")) for name in documented_names(file)}
    assert len(names) > 700
    assert sorted(names - entries) == []


def documented_names(file: Path) -> Iterator[str]:
    tree, dotted = ast.parse(file.read_text(encoding="utf-8")), SITE["_dotted"](file)
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    listed = strings if "__all__" in file.read_text(encoding="utf-8") else set()
    held = set(SITE["public_names"]().values())
    for node in tree.body:
        for name in SITE["_defined"](node):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) or name in listed:
                yield f"{dotted}.{name}"
        if isinstance(node, ast.ClassDef) and f"{dotted}.{node.name}" in held:
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            yield from (f"{dotted}.{node.name}.{name}" for each in methods for name in SITE["_defined"](each))


def test_every_page_has_an_entry_of_its_own_in_the_navigation(site: Path) -> None:
    html = (site / "404.html").read_text(encoding="utf-8")
    link = re.compile(
        r'<a href="/([^"#]+)" class="md-nav__link">\s*<span class="md-ellipsis">\s*([^<]+?)\s*<'
    )
    entries = dict(link.findall(html))
    assert [page for page in pages(site) if str(page.relative_to(site)) not in entries] == []
    sections = {"Start", "Gallery", "Understand", "Use", "Reference", "Contribute"}
    assert [page for page, title in entries.items() if title in sections] == []


def test_what_a_package_takes_from_its_modules_is_documented_once(site: Path) -> None:
    html = (site / "reference" / "rejection.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h\d id="([\w.]+)" class="doc doc-heading">', html)
    assert "totalcal.rejection.gate.Gate" in headings
    assert "totalcal.rejection.Gate" not in headings
    assert 'href="#totalcal.rejection.gate.Gate"' in html


def test_every_command_shows_its_help(site: Path) -> None:
    html = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in ("predict", "serve", "run", "data fetch"):
        assert f"totalcal {command}" in html
    assert html.count("Usage:") > 15


def test_the_gallery_has_eight_examples_at_least_each_with_its_figure() -> None:
    assert len(GALLERY) >= 8
    assert [script.name for script in GALLERY if not script.with_suffix(".png").exists()] == []


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_an_example_runs_and_draws(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(script))
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        (
            "[a](../src/totalcal/functional/cells.py)",
            "[a](reference/functional.md#totalcal.functional.cells)",
        ),
        ("[a](../src/totalcal/process.py)", "[a](reference/core.md#totalcal.process)"),
        ("[a](../tests/contracts)", "a"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("![a](images/truth.png)", "![a](images/truth.png)"),
        ("[a](#here)", "[a](#here)"),
    ],
)
def test_links_into_the_repository_are_brought_home(link: str, becomes: str) -> None:
    assert SITE["rewritten"](link, "domain.md") == becomes
