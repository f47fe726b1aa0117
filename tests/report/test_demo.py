"""The demo, small: real runs of the grid, their report, opened in a browser."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from totalcal.cli import app

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> Result:
    words = ["demo", "--out", str(folder), "--models", "softmax,etp", "--seeds", "1", "--epochs", "2"]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_it_ends_with_the_verdict_and_the_place_of_the_report(shown: Result, folder: Path) -> None:
    assert shown.exit_code == 0
    assert "model fit" in shown.output
    assert "not beaten" in shown.output
    assert str(folder / "report.html") in shown.output.replace("\n", "")


def test_its_report_shows_what_real_runs_leave_behind(
    shown: Result, folder: Path, open_page: Callable[[Path], "Page"]
) -> None:
    assert shown.exit_code == 0
    page = open_page(folder / "report.html")
    assert page.locator(".plot svg").count() >= 8
    assert page.get_by_text("What does the memory hold?").count() == 2  # in the contents, and its heading
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
