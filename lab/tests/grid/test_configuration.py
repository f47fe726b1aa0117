"""From what was asked for to run configurations."""

import json

import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal.models import MODELS
from totalcal_lab.backbones.baselines import BASELINES
from totalcal_lab.grid.configuration import RunConfig
from totalcal_lab.grid.grid import Grid, models_named
from totalcal_lab.records.labels import ORDER


def _one(model="etp", task="fashion", preset="paper", **overrides):
    return Grid(task, preset, overrides).configurations([model], 1)[-1]


def test_a_stopped_grid_is_balanced_and_baselines_follow_what_they_need():
    configs = Grid("digits", "laptop", {}).configurations(models_named("etp,baselines"), 2)
    assert [(config.seed, config.model) for config in configs] == [
        *((seed, model) for seed in (0, 1) for model in ("softmax", "etp", "temperature", "mc_dropout")),
        (0, "ensemble"),
    ]
    names = [config.name for config in configs]
    assert configs[2].needs == (names[0],)
    assert configs[-1].needs == (names[0], names[4])


def test_two_machines_share_a_grid_by_seeds():
    grid, models = Grid("digits", "laptop", {}), ["softmax", "etp"]
    shares = grid.configurations(models, 2) + grid.configurations(models, 3, first_seed=2)
    assert shares == grid.configurations(models, 5)
    ensemble = grid.configurations(["ensemble"], 2, first_seed=3)[-1]
    assert (ensemble.seed, len(ensemble.needs)) == (3, 2)
    with pytest.raises(InputError, match="-1"):
        grid.configurations(models, 1, first_seed=-1)


def test_all_means_the_family_and_baselines_the_baselines():
    assert models_named("all") == list(MODELS)
    assert models_named("baselines, etp") == [*BASELINES, "etp"]
    with pytest.raises(UnknownNameError, match="Did you mean 'ensemble'"):
        models_named("ensembel")


def test_tables_know_the_place_of_every_model():
    assert (*MODELS, *BASELINES) == ORDER


def test_a_run_is_made_again_from_its_configuration():
    config = _one(weight_kl_scale=0)
    again = RunConfig.from_json(json.loads(json.dumps(config.as_json)))
    assert again == config
    assert again.name == config.name


@pytest.mark.parametrize(
    "setting",
    [
        {"weight_kl_scale": 0},
        {"epochs": 3},
        {"learning_rate": 0.1},
        {"train_limit": 9},
        {"draws": 3},
        {"dropout": 0.5},
        {"shifts": 2},
        {"average": 0.99},
        {"precision": "bf16-mixed"},
    ],
)
def test_every_setting_is_part_of_the_name(setting):
    config = _one(**setting)
    assert config.name != _one().name
    assert config.settings == setting


def test_a_setting_at_its_default_is_no_other_run():
    assert _one(epochs=50, retention=0.99).name == _one().name


def test_a_preset_may_know_better_than_the_default_of_a_model():
    assert _one().sections["model"]["weight_kl_scale"] == 1.0
    assert _one(weight_kl_scale=1).settings == {}
    assert _one(preset="laptop").sections["model"]["weight_kl_scale"] == 0.1


def test_whole_and_broken_numbers_are_one_configuration():
    assert _one(weight_kl_scale=2).name == _one(weight_kl_scale=2.0).name


def test_a_setting_reaches_those_models_that_have_it():
    softmax, bnn = Grid("digits", "laptop", {"weight_kl_scale": 0.5}).configurations(["softmax", "bnn"], 1)
    assert (dict(softmax.settings), dict(bnn.settings)) == ({}, {"weight_kl_scale": 0.5})


def test_a_setting_with_its_section_is_that_one():
    config = _one(**{"judging.batch_size": 7})
    assert (config.sections["judging"]["batch_size"], config.sections["training"]["batch_size"]) == (7, 128)


def test_mistakes_are_refused_before_any_work():
    with pytest.raises(UnknownNameError, match="Did you mean 'weight_kl_scale'"):
        _one(wieght_kl_scale=0)
    with pytest.raises(InputError, match="epochs must be of type int"):
        _one(epochs="many")
    with pytest.raises(InputError, match=r"num_cells.*int"):
        _one(num_cells=None)
    with pytest.raises(UnknownNameError, match="setting"):
        _one(**{"backbone.name": "mlp"})
    with pytest.raises(InputError, match=r"clip.*'abc'"):
        _one(clip="abc")
    with pytest.raises(InputError, match=r"weights=-1\.0"):
        _one(weight_kl_scale=-1)
    with pytest.raises(UnknownNameError, match="tanh_blend"):
        _one(update_rule="tahn")
    with pytest.raises(InputError, match="retention"):
        _one(retention=2.0)
    with pytest.raises(UnknownNameError, match="'digits'"):
        _one(task="digit")
    with pytest.raises(UnknownNameError, match="bf16-mixed"):
        _one(precision="bf16-mxied")


def test_the_authors_settings_are_a_preset_of_their_own():
    etp, edl = _one("etp", preset="authors"), _one("edl", preset="authors")
    assert etp.preset == "authors"
    assert etp.sections["model"]["weight_kl_scale"] == 0
    assert etp.sections["model"]["cell_variance"] == pytest.approx(0.1**2)
    assert etp.sections["contexts"]["write"] == "after"
    assert etp.sections["data"]["scaling"] == {"mean": [0.5], "std": [0.5]}
    assert (etp.sections["backbone"]["dropout"], edl.sections["backbone"]["dropout"]) == (0, 0.25)
    assert dict(etp.settings) == {}


@pytest.mark.parametrize("limit", ["train_limit", "test_limit", "ood_limit", "held_out"])
def test_a_negative_number_of_rows_is_refused_before_any_work(limit):
    with pytest.raises(InputError, match=f"{limit} is a number of rows"):
        _one(task="digits", preset="laptop", **{limit: -5})
