"""The page in a real browser: headless Chromium under Playwright."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(page: "Page", width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_mode_turns_paper_and_ink(page: "Page") -> None:
    def brightness() -> list[int]:
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        return [sum(map(int, colour[4:-1].split(","))) for colour in page.evaluate(f"() => {{ {style} }}")]

    page.emulate_media(color_scheme="light")
    paper, ink = brightness()
    assert paper > ink
    page.emulate_media(color_scheme="dark")
    paper, ink = brightness()
    assert paper < ink


def test_a_click_on_a_head_sorts_the_table_and_a_second_one_turns_it(page: "Page") -> None:
    table = page.locator("section[id$=results] table").first
    head = table.get_by_role("button", name="Error")
    models = table.locator("tbody th")
    head.click()
    assert models.all_inner_texts() == ["etp", "softmax"]
    head.click()
    assert models.all_inner_texts() == ["softmax", "etp"]
    assert head.locator("..").get_attribute("aria-sort") == "descending"


def test_every_entry_of_the_contents_leads_to_its_section(page: "Page") -> None:
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        assert page.url.endswith(target)
        assert page.locator(target).is_visible()
        assert link.inner_text().partition(",")[0] in page.locator(target).inner_text()


def test_every_picture_has_an_alternative_text(page: "Page") -> None:
    assert page.locator("img:not([alt]), img[alt='']").count() == 0
    assert page.locator("svg").count() == page.locator(".plot[role=img][aria-label] svg").count() > 0
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")


def test_it_prints(page: "Page") -> None:
    assert page.pdf(format="A4").startswith(b"%PDF")
