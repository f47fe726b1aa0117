import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from totalcal import MODELS, Predictive, etp
from totalcal.errors import InputError, ModelFileError
from totalcal.files.preprocessing import Preprocessing
from totalcal.files.recipe import Recipe
from totalcal.files.saved import load, save
from totalcal.inference import predict_alike
from totalcal.rejection import Gate
from totalcal.types import PointMass


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_predicts_the_same_after_a_round_trip(name, tmp_path, rows, context):
    recipe = Recipe(name, 3, backbone="mlp", backbone_arguments={"num_inputs": 4})
    model = recipe.build().eval()
    model.memorise(context.inputs, context.labels)
    given = context if name == "anp" else None
    save(model, tmp_path / "it.totalcal", recipe=recipe, context=given)
    again = load(tmp_path / "it.totalcal")
    assert_array_equal(
        again.predict(rows).probabilities, predict_alike(model, rows, context=given).probabilities
    )


def test_everything_that_was_saved_comes_back(tmp_path, recipe, rows):
    held_out = Predictive(PointMass(3 * torch.randn(1, 99, 3, generator=torch.Generator().manual_seed(0))))
    gate = Gate.fitted(held_out, held_out.probabilities.argmax(1))
    preprocessing = Preprocessing.fitted(10 * rows + 5, columns=["a", "b", "c", "d"])
    save(
        recipe.build(),
        tmp_path / "it.totalcal",
        recipe=recipe,
        gate=gate,
        classes=["cat", "dog", "eel"],
        preprocessing=preprocessing,
        scores={"error": 0.25},
    )
    found = load(tmp_path / "it.totalcal")
    assert (found.recipe, found.gate, found.scores) == (recipe, gate, {"error": 0.25})
    assert found.classes == ("cat", "dog", "eel")
    assert found.preprocessing.columns == ("a", "b", "c", "d")
    assert_array_equal(found.preprocessing(rows), preprocessing(rows))


def test_a_fresh_process_predicts_the_same(tmp_path, recipe, rows):
    save(recipe.build(), tmp_path / "it.totalcal", recipe=recipe)
    np.save(tmp_path / "rows.npy", rows.numpy())
    program = (
        "import numpy, totalcal\n"
        "prediction = totalcal.load('it.totalcal').predict(numpy.load('rows.npy'))\n"
        "numpy.save('out.npy', prediction.probabilities.numpy())\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
    here = load(tmp_path / "it.totalcal").predict(rows).probabilities
    assert_allclose(np.load(tmp_path / "out.npy"), here, rtol=1e-12)


def test_a_backbone_of_ones_own_is_handed_over(tmp_path, rows):
    recipe = Recipe("etp", 3)
    model = recipe.build(nn.Linear(4, 3))
    save(model, tmp_path / "own.totalcal", recipe=recipe)
    with pytest.raises(ModelFileError, match=r"backbone=MyNet\(\)"):
        load(tmp_path / "own.totalcal")
    with pytest.raises(ModelFileError, match=r"backbone\.weight_\w+, which should have shape"):
        load(tmp_path / "own.totalcal", backbone=nn.Linear(5, 3))
    again = load(tmp_path / "own.totalcal", backbone=nn.Linear(4, 3))
    assert_array_equal(again.predict(rows).entropy, predict_alike(model, rows).entropy)


def test_a_model_without_a_recipe_is_handed_over_whole(tmp_path, rows):
    def build():
        return etp(nn.Linear(4, 3), 3, key_map=nn.Sequential(nn.Linear(3, 3), nn.Unflatten(-2, (1, -1))))

    model = build()
    save(model, tmp_path / "own.totalcal")
    with pytest.raises(ModelFileError, match=r"load\(path, model=…\)"):
        load(tmp_path / "own.totalcal")
    again = load(tmp_path / "own.totalcal", model=build())
    assert_array_equal(again.predict(rows).entropy, predict_alike(model, rows).entropy)


def test_the_same_model_gives_the_same_bytes(tmp_path, recipe):
    model = recipe.build()
    save(model, tmp_path / "one", recipe=recipe)
    save(model, tmp_path / "two", recipe=recipe)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, recipe):
    path = tmp_path / "it.totalcal"
    save(recipe.build(), path, recipe=recipe)
    before = path.read_bytes()
    with pytest.raises(ValueError):
        save(recipe.build(), path, recipe=recipe, scores={"nll": float("nan")})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_as_many_class_names_as_classes(tmp_path, recipe):
    with pytest.raises(InputError, match="3 classes, but 2 names"):
        save(recipe.build(), tmp_path / "it", recipe=recipe, classes=["a", "b"])


def test_a_recipe_refuses_what_a_file_cannot_hold():
    with pytest.raises(InputError, match="plain values, but key_map is Linear"):
        Recipe("etp", 3, {"key_map": nn.Linear(3, 3)})


def test_a_loaded_model_goes_on_learning(tmp_path, recipe, rows, context):
    save(recipe.build(), tmp_path / "it", recipe=recipe)
    model = load(tmp_path / "it").model
    before = model.latent.cells.clone()
    model.memorise(*context)
    model(rows, context.labels, context=3).total(examples=6).backward()
    assert not torch.equal(model.latent.cells, before)
    assert all(parameter.grad is not None for parameter in model.parameters())
