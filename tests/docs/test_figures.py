"""The diagrams in docs/images are what their script draws today."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = runpy.run_path(str(DOCS / "figures" / "plates.py"))["FIGURES"]


@pytest.mark.parametrize("name", FIGURES)
def test_a_committed_diagram_is_what_the_script_draws(name):
    assert (DOCS / "images" / name).read_text(encoding="utf-8") == FIGURES[name]()


@pytest.mark.parametrize("name", FIGURES)
def test_a_diagram_stands_on_its_own_ground_and_has_a_title(name):
    drawing = ElementTree.fromstring(FIGURES[name]())
    tags = {"s": "http://www.w3.org/2000/svg"}
    assert drawing.find("s:title", tags).text
    assert drawing.find("s:rect", tags).get("fill") == "white"
