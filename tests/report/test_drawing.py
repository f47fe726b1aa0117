"""Plots as SVG: the page's colours, no clash of names, text as it was given."""

import re

from totalcal.report.blocks import Plot
from totalcal.report.drawing import svg


def plot(text: str = "label", name: str = "a") -> Plot:
    def draw(axes) -> None:
        axes.plot([0, 1], [0.12345, 0.125], color="#0072b2", label=text)
        axes.set_yticks([0.12345], ["0.12345"])
        axes.legend()

    return Plot(name, "title", "alternative", draw)


def test_text_between_tags_is_left_alone() -> None:
    assert ">0.12345</text>" in svg(plot())


def test_colours_are_those_of_the_page() -> None:
    drawn = svg(plot())
    assert "var(--blue)" in drawn
    assert "currentColor" in drawn
    assert "#0072b2" not in drawn


def test_markup_in_a_label_is_text() -> None:
    assert "<script" not in svg(plot("<script>x</script>"))


def test_dollars_are_no_mathematics() -> None:
    assert ">$x_1</text>" in svg(plot("$x_1"))


def test_two_plots_share_no_name() -> None:
    first, second = (set(re.findall(r' id="([^"]+)"', svg(plot(name=name)))) for name in "ab")
    assert first
    assert not first & second
