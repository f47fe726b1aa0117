"""What nets are found with, and a file cannot hold: hooks, compilers, quantised layers."""

import pytest
import torch
from torch import nn

import totalcal
from totalcal.errors import InputError, ModelFileError

ROWS = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(200) % 3
TRAIN, HELD_OUT = (ROWS[:100], LABELS[:100]), (ROWS[100:], LABELS[100:])


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def with_hook(hook):
    made = net()
    made[0].register_forward_hook(hook)
    return made


def calibrated(given):
    return totalcal.calibrate(given, TRAIN, HELD_OUT, progress=False)


def compiled_inside():
    made = net()
    made[0] = torch.compile(made[0])
    return made


def compiled_later(model):
    model.process.backbone[0] = torch.compile(model.process.backbone[0])
    return model


def compiled_whole(model):
    model.process = torch.compile(model.process)
    return model


@pytest.mark.parametrize("change", [lambda model: model, compiled_later, compiled_whole])
@pytest.mark.parametrize("given", [net, compiled_inside, lambda: torch.compile(net())])
@pytest.mark.filterwarnings("ignore")
def test_what_compiles_a_net_is_no_part_of_its_file(given, change, tmp_path):
    model = calibrated(given())
    expected = model.predict(ROWS)
    change(model).save(tmp_path / "model.totalcal")
    found = totalcal.load(tmp_path / "model.totalcal", backbone=net()).predict(ROWS)
    assert torch.equal(found.probabilities, expected.probabilities)
    assert torch.equal(found.familiarity, expected.familiarity)


def test_hooks_of_a_net_of_ones_own_are_its_owners_and_are_missed_when_it_is_loaded_without(
    tmp_path, recwarn
):
    def double(module, inputs, output):
        return 2 * output

    model = calibrated(with_hook(double))
    model.save(tmp_path / "model.totalcal")
    again = totalcal.load(tmp_path / "model.totalcal", backbone=with_hook(double))
    assert not recwarn.list
    assert torch.equal(again.predict(ROWS).probabilities, model.predict(ROWS).probabilities)
    with pytest.warns(UserWarning, match=r"backbone\.0 had hooks"):
        other = totalcal.load(tmp_path / "model.totalcal", backbone=net())
    assert not torch.allclose(other.predict(ROWS).probabilities, model.predict(ROWS).probabilities)


def test_a_hook_that_came_after_calibration_is_saved_with_its_net(tmp_path):
    model = calibrated(net())
    model.process.backbone[0].register_forward_hook(lambda *_: None)
    model.save(tmp_path / "model.totalcal")
    with pytest.warns(UserWarning, match="hooks"):
        again = totalcal.load(tmp_path / "model.totalcal", backbone=net())
    assert torch.equal(again.predict(ROWS).probabilities, model.predict(ROWS).probabilities)


def test_a_hook_in_a_net_that_the_file_would_make_again_is_refused(tmp_path):
    model = calibrated(totalcal.nets.mlp(4, 3))
    handle = model.process.backbone.relu1.register_forward_hook(lambda *_: None)
    with pytest.raises(InputError, match=r"backbone\.relu1"):
        model.save(tmp_path / "model.totalcal")
    assert not list(tmp_path.iterdir())
    handle.remove()
    model.save(tmp_path / "model.totalcal")
    totalcal.load(tmp_path / "model.totalcal")


@pytest.mark.filterwarnings("ignore")
def test_quantised_and_scripted_nets_are_refused_with_what_to_do(tmp_path):
    model = calibrated(torch.ao.quantization.quantize_dynamic(net()))
    with pytest.raises(InputError, match="quantised"):
        model.save(tmp_path / "model.totalcal")
    with pytest.raises(InputError, match="the module that it was made from"):
        calibrated(torch.jit.trace(net(), ROWS[:2]))


def test_a_net_whose_layers_are_not_made_yet_is_refused_with_what_to_do(tmp_path):
    def lazy():
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))

    net, rows = lazy(), torch.randn(6, 2, 2)
    net(rows)
    totalcal.save(totalcal.softmax(net, num_classes=3), tmp_path / "it.totalcal")
    with pytest.raises(ModelFileError, match=r"1\.weight yet: call it once"):
        totalcal.load(tmp_path / "it.totalcal", backbone=lazy())


def test_layers_whose_settings_are_none_by_default_are_saved(tmp_path):
    def normed():
        return nn.Sequential(nn.Linear(4, 8), nn.RMSNorm(8), nn.LPPool1d(2, 2), nn.Linear(4, 3))

    rows = torch.randn(5, 4)
    model = totalcal.softmax(normed(), num_classes=3)
    totalcal.save(model, tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal", backbone=normed())
    assert torch.equal(again.predict(rows).probabilities, model.predict(rows).probabilities)
