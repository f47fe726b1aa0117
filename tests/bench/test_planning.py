"""From what was asked for to cells."""

import json

import pytest

from totalcal.bench.cell import Cell
from totalcal.bench.planning import Grid, models_named
from totalcal.errors import InputError, UnknownNameError
from totalcal.models import MODELS
from totalcal.records.labels import ORDER
from totalcal.rivals import RIVALS


def _one(model="etp", task="fashion", preset="paper", **overrides):
    return Grid(task, preset, overrides).cells([model], 1)[-1]


def test_a_stopped_grid_is_balanced_and_rivals_follow_what_they_need():
    cells = Grid("digits", "laptop", {}).cells(models_named("etp,rivals"), 2)
    assert [(cell.seed, cell.model) for cell in cells] == [
        *((seed, model) for seed in (0, 1) for model in ("softmax", "etp", "temperature", "mc_dropout")),
        (0, "ensemble"),
    ]
    names = [cell.name for cell in cells]
    assert cells[2].needs == (names[0],)
    assert cells[-1].needs == (names[0], names[4])


def test_two_machines_share_a_grid_by_seeds():
    grid, models = Grid("digits", "laptop", {}), ["softmax", "etp"]
    shares = grid.cells(models, 2) + grid.cells(models, 3, first_seed=2)
    assert shares == grid.cells(models, 5)
    ensemble = grid.cells(["ensemble"], 2, first_seed=3)[-1]
    assert (ensemble.seed, len(ensemble.needs)) == (3, 2)
    with pytest.raises(InputError, match="from 0, but the first is to be -1"):
        grid.cells(models, 1, first_seed=-1)


def test_all_means_the_family_and_rivals_the_rivals():
    assert models_named("all") == list(MODELS)
    assert models_named("rivals, etp") == [*RIVALS, "etp"]
    with pytest.raises(UnknownNameError, match="Did you mean 'ensemble'"):
        models_named("ensembel")


def test_tables_know_the_place_of_every_model():
    assert set(ORDER) == {*MODELS, *RIVALS}


def test_a_cell_is_made_again_from_its_configuration():
    cell = _one(weight_kl=0)
    again = Cell.from_config(json.loads(json.dumps(cell.config)))
    assert again == cell
    assert again.name == cell.name


@pytest.mark.parametrize(
    "setting",
    [
        {"weight_kl": 0},
        {"epochs": 3},
        {"learning_rate": 0.1},
        {"train_limit": 9},
        {"draws": 3},
        {"dropout": 0.5},
    ],
)
def test_every_setting_is_part_of_the_name(setting):
    cell = _one(**setting)
    assert cell.name != _one().name
    assert cell.settings == setting


def test_a_setting_at_its_default_is_no_other_run():
    assert _one(epochs=50, retention=0.99).name == _one().name


def test_a_preset_may_know_better_than_the_default_of_a_model():
    assert _one().sections["model"]["weight_kl"] == 1.0
    assert _one(weight_kl=1).settings == {}
    assert _one(preset="laptop").sections["model"]["weight_kl"] == 0.1


def test_whole_and_broken_numbers_are_one_configuration():
    assert _one(weight_kl=2).name == _one(weight_kl=2.0).name


def test_a_setting_reaches_those_models_that_have_it():
    softmax, bnn = Grid("digits", "laptop", {"weight_kl": 0.5}).cells(["softmax", "bnn"], 1)
    assert (dict(softmax.settings), dict(bnn.settings)) == ({}, {"weight_kl": 0.5})


def test_a_setting_with_its_section_is_that_one():
    cell = _one(**{"judging.batch_size": 7})
    assert (cell.sections["judging"]["batch_size"], cell.sections["training"]["batch_size"]) == (7, 128)


def test_mistakes_are_refused_before_any_work():
    with pytest.raises(UnknownNameError, match="Did you mean 'weight_kl'"):
        _one(wieght_kl=0)
    with pytest.raises(InputError, match="epochs is a int"):
        _one(epochs="many")
    with pytest.raises(UnknownNameError, match="tanh_blend"):
        _one(update_rule="tahn")
    with pytest.raises(InputError, match="retention"):
        _one(retention=2.0)
    with pytest.raises(UnknownNameError, match="'digits'"):
        _one(task="digit")


def test_the_authors_settings_are_a_preset_of_their_own():
    etp, edl = _one("etp", preset="authors"), _one("edl", preset="authors")
    assert etp.preset == "authors"
    assert etp.sections["model"]["weight_kl"] == 0
    assert etp.sections["model"]["cell_variance"] == pytest.approx(0.1**2)
    assert etp.sections["contexts"]["write"] == "after"
    assert etp.sections["data"]["scaling"] == {"mean": [0.5], "std": [0.5]}
    assert (etp.sections["backbone"]["dropout"], edl.sections["backbone"]["dropout"]) == (0, 0.25)
    assert dict(etp.settings) == {}


@pytest.mark.parametrize("limit", ["train_limit", "test_limit", "ood_limit", "held_out"])
def test_a_negative_number_of_rows_is_refused_before_any_work(limit):
    with pytest.raises(InputError, match=f"{limit} is a number of rows"):
        _one(task="digits", preset="laptop", **{limit: -5})
