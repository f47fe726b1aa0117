import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import safetensors.torch
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from totalcal import MODELS, Predictive, anp, etp
from totalcal.data.preprocessing import Preprocessing
from totalcal.decisions import Gate
from totalcal.errors import InputError, ModelFileError
from totalcal.files.container import read_container, summary, write_container
from totalcal.files.recipe import Recipe
from totalcal.files.saved import load, save
from totalcal.nets import BACKBONES, mlp
from totalcal.types import ContextUse, PointMass

from .. import nets  # noqa: F401 - it registers its nets


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_predicts_the_same_after_a_round_trip(name, tmp_path, rows, context):
    model = MODELS[name](mlp(4, 3), 3).eval()
    model.absorb_context(context.inputs, context.labels)
    given = context if name == "anp" else None
    save(model, tmp_path / "it.totalcal", context=given)
    again = load(tmp_path / "it.totalcal")
    assert_array_equal(again.predict(rows).probabilities, model.predict(rows, context=given).probabilities)


def test_everything_that_was_saved_comes_back(tmp_path, recipe, rows):
    held_out = Predictive(PointMass(3 * torch.randn(1, 99, 3, generator=torch.Generator().manual_seed(0))))
    gate = Gate.fitted(held_out, held_out.probabilities.argmax(1))
    preprocessing = Preprocessing.fitted(10 * rows + 5, columns=["a", "b", "c", "d"])
    save(
        recipe.build(),
        tmp_path / "it.totalcal",
        gate=gate,
        classes=["cat", "dog", "eel"],
        preprocessing=preprocessing,
        scores={"error": 0.25},
    )
    found = load(tmp_path / "it.totalcal")
    assert (found.gate, found.scores) == (gate, {"error": 0.25})
    assert found.classes == ("cat", "dog", "eel")
    assert found.preprocessing.columns == ("a", "b", "c", "d")
    assert_array_equal(found.preprocessing(rows), preprocessing(rows))


def test_a_model_comes_back_in_its_precision(tmp_path, recipe, rows):
    model, preprocessing = recipe.build().double().eval(), Preprocessing.fitted(rows)
    save(model, tmp_path / "it.totalcal", preprocessing=preprocessing)
    again = load(tmp_path / "it.totalcal")
    assert {parameter.dtype for parameter in again.process.parameters()} == {torch.float64}
    expected = model.predict(preprocessing(rows, torch.float64))
    assert_array_equal(again.predict(rows).probabilities, expected.probabilities)


def test_a_model_of_several_precisions_keeps_them(tmp_path):
    net = nn.Sequential(nn.Linear(4, 5).double(), nn.Linear(5, 3))
    save(etp(net, 3, layers="none"), tmp_path / "it.totalcal")
    again = load(tmp_path / "it.totalcal", backbone=net).process
    assert [weight.dtype for weight in again.backbone.parameters()] == [
        weight.dtype for weight in net.parameters()
    ]
    assert {weight.dtype for weight in net.parameters()} == {torch.float32, torch.float64}


def test_a_fresh_process_predicts_the_same(tmp_path, recipe, rows):
    save(recipe.build(), tmp_path / "it.totalcal")
    np.save(tmp_path / "rows.npy", rows.numpy())
    program = (
        "import sys, numpy, totalcal\n"
        "prediction = totalcal.load('it.totalcal').predict(numpy.load('rows.npy'))\n"
        "numpy.save('out.npy', prediction.probabilities.numpy())\n"
        "assert 'torch._dynamo' not in sys.modules, 'it takes longer to import than all the rest'\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
    here = load(tmp_path / "it.totalcal").predict(rows).probabilities
    assert_allclose(np.load(tmp_path / "out.npy"), here, rtol=1e-12)


BACKBONE_CALLS = {
    "lenet5": ({"image": (1, 16, 16), "widths": (2, 3, 4)}, torch.rand(2, 1, 16, 16)),
    "log_probabilities": ({"floor": 0.01}, torch.rand(2, 3)),
    "lstm": ({"vocabulary": 9, "hidden": 4}, torch.randint(9, (2, 5))),
    "mlp": ({"num_inputs": 4, "hidden": [5, 6]}, torch.rand(2, 4)),
    "resnet18": ({"width": 2}, torch.rand(2, 3, 8, 8)),
    "small_convnet": ({"dropout": 0.5}, torch.rand(2, 1, 8, 8)),
}


@pytest.mark.parametrize("name", list(BACKBONES))
@pytest.mark.parametrize("make", [etp, partial(etp, layers="none")])
def test_every_backbone_of_ours_is_made_again(name, make, tmp_path):
    arguments, inputs = BACKBONE_CALLS[name]
    model = make(BACKBONES[name](num_classes=3, **arguments), num_classes=3, num_cells=7).eval()
    save(model, tmp_path / "it.totalcal")
    again = load(tmp_path / "it.totalcal").predict(inputs)
    assert_array_equal(again.entropy, model.predict(inputs).entropy)


def test_a_loaded_model_is_saved_again(tmp_path, rows):
    save(etp(mlp(4, 3), 3), tmp_path / "one")
    save(load(tmp_path / "one").process, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("make", [etp, anp, partial(etp, layers="none")])
def test_a_backbone_of_ones_own_is_handed_over(make, tmp_path, rows, context):
    model = make(nn.Linear(4, 3), num_classes=3)
    given = context if model.context_use is ContextUse.REQUIRED else None
    save(model, tmp_path / "own.totalcal", context=given)
    with pytest.raises(ModelFileError, match=r"backbone=MyNet\(\)"):
        load(tmp_path / "own.totalcal")
    with pytest.raises(ModelFileError, match=r"backbone\.weight\w*, .*shape"):
        load(tmp_path / "own.totalcal", backbone=nn.Linear(5, 3))
    again = load(tmp_path / "own.totalcal", backbone=nn.Linear(4, 3))
    assert_array_equal(again.predict(rows).entropy, model.predict(rows, context=given).entropy)


def test_a_backbone_of_ours_that_was_changed_is_ones_own(tmp_path, rows):
    def changed():
        backbone = mlp(4, 3)
        backbone.relu1 = nn.Tanh()
        return backbone

    model = etp(changed(), 3)
    save(model, tmp_path / "own.totalcal")
    assert dict(summary(tmp_path / "own.totalcal"))["backbone"].startswith("of your own")
    again = load(tmp_path / "own.totalcal", backbone=changed())
    assert_array_equal(again.predict(rows).entropy, model.predict(rows).entropy)


def test_a_backbone_too_many_is_refused(tmp_path):
    save(etp(mlp(4, 3), 3), tmp_path / "it.totalcal")
    with pytest.raises(ModelFileError, match="'mlp'"):
        load(tmp_path / "it.totalcal", backbone=mlp(4, 3))


def test_a_model_of_parts_of_ones_own_is_handed_over_whole(tmp_path, rows):
    def build():
        return etp(nn.Linear(4, 3), 3, key_map=nn.Sequential(nn.Linear(3, 3)))

    model = build()
    save(model, tmp_path / "own.totalcal")
    assert "parts of your own" in dict(summary(tmp_path / "own.totalcal"))["model"]
    with pytest.raises(ModelFileError, match=r"load\(path, model=…\)"):
        load(tmp_path / "own.totalcal")
    again = load(tmp_path / "own.totalcal", model=build())
    assert_array_equal(again.predict(rows).entropy, model.predict(rows).entropy)


def test_the_same_model_gives_the_same_bytes(tmp_path, recipe):
    model = recipe.build()
    save(model, tmp_path / "one")
    save(model, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, recipe):
    path = tmp_path / "it.totalcal"
    save(recipe.build(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError):
        save(recipe.build(), path, scores={"nll": float("nan")})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_as_many_class_names_as_classes(tmp_path, recipe):
    with pytest.raises(InputError, match="2 names"):
        save(recipe.build(), tmp_path / "it", classes=["a", "b"])


def test_a_recipe_refuses_what_a_file_cannot_hold():
    with pytest.raises(InputError, match="key_map"):
        Recipe("etp", 3, {"key_map": nn.Linear(3, 3)})


def test_a_loaded_model_goes_on_learning(tmp_path, recipe, rows, context):
    save(recipe.build(), tmp_path / "it")
    model = load(tmp_path / "it").process
    before = model.latent.cells.clone()
    model.absorb_context(*context)
    model(rows, context.labels, context=3).total(examples=6).backward()
    assert not torch.equal(model.latent.cells, before)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(tmp_path):
    model, path = etp(mlp(4, 3), num_classes=3), tmp_path / "a.totalcal"
    save(model, path)
    sound = read_container(path)
    tensors = safetensors.torch.load(sound.tensors)
    tensors["model/backbone.linear1.bias"][0] = torch.nan
    write_container(path, sound._replace(tensors=safetensors.torch.save(tensors)))
    with pytest.raises(ModelFileError, match=r"linear1\.bias .*not finite"):
        load(path)
    path.unlink()
    with torch.no_grad():
        model.backbone.linear1.bias[0] = torch.nan
    with pytest.raises(ModelFileError, match=r"linear1\.bias .*not finite"):
        save(model, path)
    assert not list(tmp_path.iterdir())
