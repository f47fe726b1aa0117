"""The page on data says nothing that does not run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_every_example_of_the_page_runs():
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert tried > 20
    assert failed == 0
