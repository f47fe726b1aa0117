"""A page of blocks made by hand, as text and in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from totalcal.report import Entry, Table
from totalcal.report.blocks import Chapter, Gallery, Listing, Picture, Plot, Plots, Prose, Section
from totalcal.report.drawing import address
from totalcal.report.page import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from playwright.sync_api import Page

HOSTILE = '<script>alert("1")</script>$x_1$'


def line(axes: "Axes") -> None:
    axes.plot([0, 1], [0, 1], label="$\\frac$ <b>")
    axes.legend()


def chapter(title: str, label: str = "one") -> Chapter:
    rows = [
        [Entry(name), *(Entry(f"{value:.1f} ± 0.1", sort=value) for value in values)]
        for name, *values in ((label, 6.0, *range(12)), ("two", 4.0, *range(12)))
    ]
    columns = ["model", "Error", *(f"a long title {number}" for number in range(12))]
    picture = Picture(address(np.zeros((8, 8, 1), np.uint8)), "a black square", label)
    blocks = [
        Prose("Nobody is beaten.", strong=True),
        Table.of_rows("scores", "Means over seeds", columns, rows),
        Plots("curves", "A line.", [Plot(f"{title}-line", label, "a line upwards", line)]),
        Gallery("Squares", [picture] * 20),
        Listing("Settings", "word " * 200),
    ]
    return Chapter(title, title, "demo", "two seeds", [Section("all", "All of it", "Read this.", blocks)])


@pytest.fixture(scope="module")
def html() -> str:
    return page([chapter("digits"), chapter("letters", HOSTILE)])


@pytest.fixture
def shown(html: str, tmp_path: Path, open_page: Callable[[Path], "Page"]) -> "Page":
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    return open_page(tmp_path / "page.html")


def test_the_same_blocks_give_the_same_bytes(html: str) -> None:
    assert page([chapter("digits"), chapter("letters", HOSTILE)]) == html


def test_it_refers_to_nothing_outside_of_itself(html: str) -> None:
    references = re.findall(r'(?:src|href|action)="([^"]*)"|url\(([^)]*)\)', html)
    targets = {first or second for first, second in references}
    assert {target.split(",")[0].split("#")[0] for target in targets} == {"", "data:image/png;base64"}


def test_every_anchor_of_the_contents_exists_once(html: str) -> None:
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(names)


def test_strings_of_the_user_are_text_also_inside_of_figures(html: str) -> None:
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert "<b>" not in re.sub(r"<li>\s*<img[^>]*>\s*<b>", "", html)
    assert "$\\frac$" in html


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(shown: "Page", width: int, scheme: str) -> None:
    shown.emulate_media(color_scheme=scheme)
    shown.set_viewport_size({"width": width, "height": 844})
    assert shown.evaluate("document.documentElement.scrollWidth") == width


def test_dark_mode_turns_paper_and_ink(shown: "Page") -> None:
    def brightness() -> list[int]:
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        return [sum(map(int, colour[4:-1].split(","))) for colour in shown.evaluate(f"() => {{ {style} }}")]

    shown.emulate_media(color_scheme="light")
    paper, ink = brightness()
    assert paper > ink
    shown.emulate_media(color_scheme="dark")
    paper, ink = brightness()
    assert paper < ink


def test_a_click_on_a_head_sorts_the_table_and_a_second_one_turns_it(shown: "Page") -> None:
    table = shown.locator("section[id^=digits] table").first
    head = table.get_by_role("button", name="Error")
    models = table.locator("tbody th")
    head.click()
    assert models.all_inner_texts() == ["two", "one"]
    head.click()
    assert models.all_inner_texts() == ["one", "two"]
    assert head.locator("..").get_attribute("aria-sort") == "descending"


def test_every_entry_of_the_contents_leads_to_its_section(shown: "Page") -> None:
    for link in shown.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        assert shown.url.endswith(target)
        assert shown.locator(target).is_visible()
        assert link.inner_text().partition(",")[0] in shown.locator(target).inner_text()


def test_every_picture_has_an_alternative_text(shown: "Page") -> None:
    assert shown.locator("img:not([alt]), img[alt='']").count() == 0
    assert shown.locator("svg").count() == shown.locator(".plot[role=img][aria-label] svg").count() == 2
    assert shown.evaluate("[...document.images].every(image => image.naturalWidth > 0)")


def test_it_prints(shown: "Page") -> None:
    assert shown.pdf(format="A4").startswith(b"%PDF")
