import copy

import pytest
import torch
from torch import nn

from totalcal import MODELS, etp, softmax
from totalcal.functional.cells import tanh_blend
from totalcal.nets import BACKBONES, mlp, small_convnet
from totalcal.origin import is_plain, origin_of

from .nets import lenet5


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_says_how_it_and_its_backbone_were_made(name):
    origin = origin_of(MODELS[name](mlp(4, num_classes=3, hidden=(5,)), 3))
    assert (origin.factory, origin.arguments["num_classes"]) == (name, 3)
    assert origin.backbone.factory == "mlp"
    assert origin.backbone.arguments == {"num_inputs": 4, "num_classes": 3, "hidden": (5,), "dropout": 0.0}


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_backbone_goes_by_its_name_in_the_registry(name):
    needed = {"num_inputs": 4} if name == "mlp" else {}
    with torch.device("meta"):
        assert origin_of(BACKBONES[name](num_classes=3, **needed)).factory == name


def test_a_model_with_a_module_among_its_arguments_has_no_origin():
    assert origin_of(etp(mlp(4, 3), 3, key_map=nn.Linear(3, 3))) is None


def test_defaults_are_noted():
    noted = origin_of(etp(nn.Linear(4, 3), 3)).arguments
    assert (noted["retention"], noted["update_rule"]) == (0.99, tanh_blend)


def test_what_is_set_afterwards_leaves_the_origin_as_it_is():
    model = etp(mlp(4, 3), 3)
    before = origin_of(model)
    model.latent.retention = 0.5
    assert origin_of(model) == before


def test_a_hook_takes_the_origin_away():
    model = etp(mlp(4, 3), 3)
    handle = model.head.register_forward_hook(lambda *_: None)
    assert origin_of(model) is None
    handle.remove()
    assert origin_of(model) is not None


def test_a_module_with_other_layers_than_it_was_made_with_has_no_origin():
    backbone = lenet5(10)
    backbone.classes = nn.Linear(500, 3)
    assert origin_of(backbone) is None
    model = etp(mlp(4, 3), 3)
    model.head.evidence_map = nn.Identity()
    assert origin_of(model) is None


def test_a_copy_has_the_origin_of_its_original():
    model = etp(mlp(4, 3), 3)
    assert origin_of(copy.deepcopy(model)) == origin_of(model)


@pytest.mark.parametrize("value", [1, 1.5, "a", None, True, (1, 2), ["a", None]])
def test_plain_values(value):
    assert is_plain(value)


@pytest.mark.parametrize("value", [nn.ReLU(), torch.ones(()), print, [[1]], {"a": 1}, [1] * 65])
def test_values_beyond_plain(value):
    assert not is_plain(value)


def test_the_net_of_a_process_has_its_origin_though_it_pools_in_another_way():
    process = softmax(small_convnet(10), num_classes=10)
    assert origin_of(process.backbone).factory == "small_convnet"
