"""A saved model is the model: whatever a part is set to when it is saved, the loaded one is set to."""

import math

import pytest
import safetensors.torch
import torch
from numpy.testing import assert_allclose
from torch import nn

from totalcal import MODELS, Batch, LossWeights, bnn, edl, etp, load, remember, save
from totalcal.errors import ModelFileError, TotalcalError
from totalcal.files.container import read_container, summary, write_container
from totalcal.files.recipe import recipe_of, restore_settings, settings_of, why_no_recipe
from totalcal.functional.cells import blend, identity, one_class_each
from totalcal.nets import BACKBONES, mlp
from totalcal.parts.weights import LogUniformPrior, NormalPrior
from totalcal.types import ContextUse

from .. import nets  # noqa: F401 - it registers its nets

BACKBONE_ARGUMENTS = {"mlp": {"num_inputs": 4}, "lstm": {"vocabulary": 9}, "lenet5": {"image": (1, 16, 16)}}


def other(value):
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2 if value else 0.25
        case str():
            return value + "?"
        case None:
            return 7
        case LossWeights():
            return LossWeights(0.5, math.inf, 0.25, 3)
        case list() | tuple():
            return type(value)(other(each) for each in value)
        case ContextUse():
            return ContextUse.REQUIRED if value is not ContextUse.REQUIRED else ContextUse.OPTIONAL
        case NormalPrior() | LogUniformPrior():
            return NormalPrior(3.0)
    assert callable(value)
    return blend


def settings_changed(model):
    """Every setting of every layer set to another value."""
    for path, values in settings_of(model).items():
        layer = model.get_submodule(path)
        for name in values:
            setattr(layer, name, other(getattr(layer, name)))


@pytest.mark.parametrize("name", list(MODELS))
def test_every_setting_of_every_model_comes_back(name, tmp_path):
    model = MODELS[name](mlp(4, 3, dropout=0.1), 3)
    settings_changed(model)
    assert why_no_recipe(model) is None
    save(model, tmp_path / "it")
    found = load(tmp_path / "it").process
    for path in settings_of(model):
        layer, again = model.get_submodule(path), found.get_submodule(path)
        assert {key: vars(again)[key] for key in settings_of(model)[path]} == {
            key: vars(layer)[key] for key in settings_of(model)[path]
        }
    assert settings_of(found) == settings_of(model)


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_setting_of_every_backbone_comes_back(name, tmp_path):
    model = edl(BACKBONES[name](num_classes=3, **BACKBONE_ARGUMENTS.get(name, {})), 3)
    settings_changed(model)
    save(model, tmp_path / "it")
    assert settings_of(load(tmp_path / "it").process) == settings_of(model)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_property_sees_what_a_factory_sets(name):
    """Each argument of the factory is a weight's shape or a setting: none is lost on the way."""
    settings = settings_of(MODELS[name](mlp(4, 3), 3))
    assert settings[""]["net_classes"] == 3
    assert settings[""]["loss_weights"]["record"] == "LossWeights"
    if name == "etp":
        assert {"retention", "cell_variance", "update_rule", "write_draws"} <= settings["latent"].keys()
        assert settings["backbone.linear1"]["prior"] == {
            "record": "NormalPrior",
            "values": {"precision": 10.0},
        }
    if name == "edl":
        assert settings["head"] == {"evidence": "exp"}


def test_the_memory_forgets_after_loading_as_it_did_before(tmp_path):
    torch.manual_seed(0)
    rows = Batch(torch.randn(20, 4), torch.randint(3, (20,)))
    model = etp(mlp(4, 3), 3)
    model.latent.retention, model.latent.update_rule = 0.5, blend
    save(model, tmp_path / "it")
    again = load(tmp_path / "it").process
    for each in (model.eval(), again):
        each.absorb_context(*rows, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.latent.cells, model.latent.cells)


@pytest.mark.parametrize(
    "arguments",
    [{"update_rule": identity}, {"cell_start": one_class_each}, {"weight_prior": LogUniformPrior()}],
)
def test_functions_and_priors_of_ours_go_by_name(arguments, tmp_path):
    model = etp(mlp(4, 3), 3, **arguments)
    save(model, tmp_path / "it")
    assert settings_of(load(tmp_path / "it").process) == settings_of(model)
    assert recipe_of(load(tmp_path / "it").process).arguments == recipe_of(model).arguments


def test_what_no_file_can_name_is_refused_with_the_reason_and_the_way_out(tmp_path):
    def mine(cells, written, retention):
        return cells

    model = etp(mlp(4, 3), 3)
    model.latent.update_rule, model.latent.retention = mine, 0.25
    save(model, tmp_path / "it")
    reason = "latent.update_rule is a function that no file can name"
    assert reason in dict(summary(tmp_path / "it"))["model"]
    with pytest.raises(ModelFileError, match=rf"{reason}.*load\(path, model=…\)"):
        load(tmp_path / "it")
    again = load(tmp_path / "it", model=etp(mlp(4, 3), 3, update_rule=mine)).process
    assert (again.latent.update_rule, again.latent.retention) == (mine, 0.25)


def test_a_handed_over_backbone_keeps_what_is_its_own_and_gets_the_rest(tmp_path):
    class Net(nn.Module):
        def __init__(self, device, p):
            super().__init__()
            self.device = device
            self.dropout, self.linear = nn.Dropout(p), nn.Linear(4, 3)

        def forward(self, rows):
            return self.linear(self.dropout(rows))

    save(bnn(Net("the saving machine's", 0.5), 3, weight_prior=NormalPrior(2.0)), tmp_path / "it")
    again = load(tmp_path / "it", backbone=Net("here", 0.1)).process.backbone
    assert (again.device, again.dropout.p, again.linear.prior) == ("here", 0.5, NormalPrior(2.0))


def test_frozen_weights_stay_frozen(tmp_path):
    model = etp(mlp(4, 3), 3)
    model.backbone.requires_grad_(False)
    save(model, tmp_path / "it")
    found = load(tmp_path / "it").process.named_parameters()
    assert {name: weight.requires_grad for name, weight in found} == {
        name: weight.requires_grad for name, weight in model.named_parameters()
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"latent": {"retention": "much"}}, "sets latent.retention, a float, to 'much'"),
        ({"latent": {"no_such": 1}}, "sets latent.no_such, which the model does not have"),
        ({"latent": {"forward": 1}}, "sets latent.forward, which"),
        ({"latent": {"_buffers": None}}, "sets latent._buffers, which"),
        ({"latent": {"update_rule": {"function": "system"}}}, "there is no function 'system'"),
        ({"": {"weights": {"record": "Popen", "values": {"args": "ls"}}}}, "there is no record 'Popen'"),
        ({"latent": {"retention": {"a": 1}}}, "plain values"),
    ],
)
def test_a_hostile_setting_is_refused(settings, message):
    with pytest.raises(TotalcalError, match=message):
        restore_settings(etp(mlp(4, 3), 3), settings)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("own_backbone", [False, True])
def test_a_domain_memory_comes_back(precision, own_backbone, tmp_path):
    torch.manual_seed(0)
    rows, labels = torch.randn(300, 4, dtype=precision), torch.randint(3, (300,))
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) if own_backbone else mlp(4, 3)
    model = etp(net, 3).to(precision).eval()
    remember(model, (rows[:200], labels[:200]), (rows[200:], labels[200:]), fade=0.01)
    model.memorise(rows[:100] + 5, labels[:100])
    save(model, tmp_path / "it")
    handed = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) if own_backbone else None
    again = load(tmp_path / "it", backbone=handed)
    assert recipe_of(again.process) is not None
    new = torch.randn(50, 4, dtype=precision)
    found, expected = again.predict(new), model.predict(new)
    assert_allclose(found.unfamiliarity, expected.unfamiliarity, rtol=1e-4)
    assert_allclose(found.probabilities, expected.probabilities, rtol=1e-4)
    told = dict(summary(tmp_path / "it"))
    assert "learned since: domain" in told["domain"]
    assert "has learned" in told["monitor"]
    again.process.memorise(rows[:100] - 5, labels[:100], "other")  # and goes on
    assert again.process.domain.names == ("domain", "other")


def test_a_domain_memory_beyond_what_the_file_holds_is_refused(tmp_path):
    rows, labels = torch.randn(60, 4), torch.randint(3, (60,))
    model = etp(mlp(4, 3), 3).eval()
    remember(model, (rows[:40], labels[:40]), (rows[40:], labels[40:]))
    save(model, tmp_path / "it")
    content = read_container(tmp_path / "it")
    for change in (
        {"num_classes": "three"},
        {"sets": [{"name": "new", "classes": [3], "learned": [[3, 10**12, 10**12]]}]},
        {"widest": 10**9, "taps": [{**content.description["domain"]["taps"][0], "width": 10**9}]},
        {"taps": []},
        {"fade": "much"},
    ):
        hostile = {**content.description, "domain": {**content.description["domain"], **change}}
        write_container(tmp_path / "bad", content._replace(description=hostile))
        with pytest.raises(ModelFileError):
            load(tmp_path / "bad")


def test_a_domain_memory_of_another_version_is_refused_with_what_to_do(tmp_path):
    rows, labels = torch.randn(60, 4), torch.randint(3, (60,))
    model = etp(mlp(4, 3), 3).eval()
    remember(model, (rows[:40], labels[:40]), (rows[40:], labels[40:]))
    save(model, tmp_path / "it")
    content = read_container(tmp_path / "it")
    tensors = safetensors.torch.load(content.tensors)
    other = {name: tensor for name, tensor in tensors.items() if not name.endswith("spread")}
    write_container(tmp_path / "old", content._replace(tensors=safetensors.torch.save(other)))
    with pytest.raises(ModelFileError, match=r"totalcal\.remember again"):
        load(tmp_path / "old")
