"""The pages of results say what their records say."""

from pathlib import Path

from totalcal_lab.pages import pages_beneath, stale_pages

ROOT = Path(__file__).parents[2]


def test_no_figure_of_the_results_was_typed_by_hand():
    assert stale_pages(pages_beneath([ROOT / "README.md", ROOT / "docs" / "results"])) == []
