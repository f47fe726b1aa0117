import pytest

from totalcal.errors import UnknownNameError
from totalcal.report import ASPECTS, SCORES, better, describe, is_score


def test_a_panel_member_is_a_score_and_a_setting_is_not():
    assert is_score("auroc/mnist")
    assert not is_score("epochs")
    assert not is_score("majority_error")


def test_the_three_aspects_have_known_scores():
    assert set(ASPECTS.values()) <= set(SCORES)


def test_directions():
    assert better("nll", 0.1, 0.2)
    assert better("auroc/mnist", 0.2, 0.1)


def test_an_unknown_score_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="Did you mean 'auroc'"):
        describe("aurok")
