"""Tables of any keys."""

import pytest

from totalcal.errors import InputError
from totalcal.results.scores import choice_layout, scores_layout


def test_a_row_is_a_mean_over_seeds_and_names_its_settings(make_record):
    records = [make_record(seed=seed, nll=nll) for seed, nll in ((0, 0.2), (1, 0.4))]
    records += [make_record(seed=0, nll=0.9, settings={"weight_kl": 0})]
    (section,) = scores_layout(records, ["nll"]).sections
    shown = {row[0].text: [entry.text for entry in row[1:]] for row in section.rows}
    assert shown == {"etp": ["0.300 ± 0.141", "2"], "etp (weight_kl=0)": ["0.900", "1"]}
    assert [row[1].bold for row in section.rows] == [True, False]


def test_a_choice_marks_the_best_of_each_model_by_the_first_key(make_record):
    grid = {("bnn", 0.1): 0.3, ("bnn", 1): 0.2, ("etp", 0.1): 0.5, ("etp", 1): 0.6}
    records = [
        make_record(model, settings={"weight_kl": weight}, held_out_nll=nll, held_out_ece=1 - nll)
        for (model, weight), nll in grid.items()
    ]
    (section,) = choice_layout(records, ["held_out_nll", "held_out_ece"]).sections
    marked = [row[0].text for row in section.rows if row[1].bold and row[2].bold]
    assert marked == ["bnn (weight_kl=1)", "etp (weight_kl=0.1)"]


def test_a_key_that_a_record_lacks_is_named(make_record):
    with pytest.raises(InputError, match="held_out_nll"):
        scores_layout([make_record()], ["held_out_nll"])
