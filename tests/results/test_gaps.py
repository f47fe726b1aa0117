"""Gaps to the paper by hand."""

import math

import pytest

from totalcal.records.aggregate import Summary
from totalcal.results.gaps import gap, gap_layout


def test_a_gap_counts_the_spread_of_both_sides():
    ours, theirs = Summary(0.10, 0.03, 5), Summary(0.06, 0.04, 10)
    assert gap("error", ours, theirs) == pytest.approx(0.04 / math.sqrt((0.0009 + 0.0016) / 2))


def test_one_seed_of_ours_has_no_spread_to_count():
    assert gap("error", Summary(0.10, math.nan, 1), Summary(0.06, 0.04, 10)) == pytest.approx(1.0)


def test_a_spread_that_was_rounded_to_nothing_still_counts():
    assert gap("nll", Summary(0.30, math.nan, 1), Summary(0.29, 0.0, 10)) == pytest.approx(math.sqrt(12))


def test_the_table_says_which_side_is_better_and_leaves_out_what_the_paper_lacks(make_record):
    layout = gap_layout([make_record("etp"), make_record("softmax"), make_record("etp", seed=1)])
    (section,) = layout.sections
    assert [row[0].text for row in section.rows] == ["etp"]
    error, nll, _, auroc = (entry.text for entry in section.rows[0][1:])
    assert error.startswith("▼ +")
    assert nll.startswith("▲ −")
    assert auroc.startswith("▼ +0.0")
