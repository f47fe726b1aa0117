"""The page in a real browser: headless Chromium under Playwright."""

import base64
import re

import pytest


@pytest.fixture
def page(browser, running):
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    errors = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(running.url)
    page.wait_for_selector("#canvas:visible")
    yield page
    context.close()
    assert errors == []


def draw(page, *strokes):
    """Lines on the drawing, in hundredths of its side."""
    box = page.locator("#canvas").bounding_box()
    for points in strokes:
        places = [(box["x"] + x / 100 * box["width"], box["y"] + y / 100 * box["height"]) for x, y in points]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=4)
        page.mouse.up()


def drop(page, content):
    page.evaluate(
        """data => {
          const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0)), transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "digit.png", {type: "image/png"}));
          const options = {dataTransfer: transfer, bubbles: true, cancelable: true};
          document.dispatchEvent(new DragEvent("drop", options));
        }""",
        base64.b64encode(content).decode(),
    )


ZERO = ([(50, 12), (33, 22), (30, 50), (34, 78), (50, 88), (66, 78), (70, 50), (66, 22), (50, 12)],)
LETTER = ([(8, 90), (8, 10), (50, 60), (92, 10), (92, 90)],)  # M


def test_a_drawn_zero_is_a_zero(page):
    draw(page, *ZERO)
    page.get_by_role("button", name="Ask about the drawing").click()
    page.wait_for_selector("#result:visible")
    assert page.locator("#class").inner_text() == "0"
    assert page.locator("#terms .bar").count() == 3
    assert page.locator("#familiarity .bar").count() == 3


def test_a_drawn_letter_is_not_its_domain(page):
    draw(page, *LETTER)
    page.get_by_role("button", name="Ask about the drawing").click()
    page.wait_for_selector("#result:visible")
    assert page.locator("#decision").inner_text() == "not my domain"
    assert "unfamiliarity" in page.locator("#reason").inner_text()


def test_a_dropped_picture_is_asked_about(page, digits, picture):
    drop(page, picture(digits[0][7]))
    page.wait_for_selector("#result:visible")
    assert page.locator("#class").inner_text() == "7"
    middle = "[...pen.getImageData(0, 0, 280, 280).data].filter((v, i) => i % 4 === 0 && v < 128).length"
    page.wait_for_function(f"{middle} > 1000")  # the drawing shows it


def test_the_keyboard_draws_and_asks(page):
    page.locator("#canvas").focus()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result:visible")


def test_what_is_no_picture_is_told(page):
    drop(page, b"no picture")
    page.wait_for_selector("#problem:not(:empty)")
    assert "cannot be read" in page.locator("#problem").inner_text()


def test_it_shows_the_classes_left(page, digits, picture):
    drop(page, picture(digits[0][7]))
    page.wait_for_selector("#result:visible")
    assert "7" in page.locator("#set").inner_text()


def test_it_shows_the_monitor(page, digits, picture):
    drop(page, picture(digits[0][7]))
    page.wait_for_selector("#stream:visible")
    assert re.match(r"\d+ rows?; ", page.locator("#watched").inner_text())
    assert page.locator("#ranks figure").count() == 4  # both scores, and the two reasons
    assert page.locator("#ranks .tenths").first.locator("i").count() == 10


def test_the_keyboard_reaches_everything(page):
    """Tab goes through drawing, buttons, file and checkbox, and each shows that it has the focus."""
    page.locator("body").click(position={"x": 2, "y": 2})
    seen = []
    for _ in range(5):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id"))
        outline = (
            "getComputedStyle(document.activeElement.closest('.file') || document.activeElement).outlineStyle"
        )
        assert page.evaluate(outline) == "solid"
    assert seen == ["canvas", "send", "clear", "file", "invert"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_nothing_overflows(page, width, scheme, digits, picture):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    drop(page, picture(digits[0][7]))
    page.wait_for_selector("#result:visible")
    assert page.evaluate("document.documentElement.scrollWidth") == width
