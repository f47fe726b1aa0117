"""What a file sets is checked when it is read, by one list, before any of it is used."""

import copy
import json
import math

import pytest
import safetensors.torch
import torch

import totalcal
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.errors import InputError, ModelFileError
from totalcal.files.container import read_container, write_container
from totalcal.files.schema import check_settings
from totalcal.nets import mlp


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    torch.manual_seed(0)
    inputs = torch.randn(400, 4)
    labels = inputs[:, :3].argmax(1)
    model = totalcal.etp(mlp(4, 3), 3)
    calibrated = totalcal.calibrate(model, (inputs[:200], labels[:200]), (inputs[200:], labels[200:]))
    path = tmp_path_factory.mktemp("sound") / "m.totalcal"
    monitor = Monitor.start(watched_scores(calibrated.predict(inputs[200:])))
    totalcal.save(calibrated.process, path, gate=calibrated.gate, monitor=monitor, summary=calibrated.summary)
    return read_container(path)


def changed(description, place, value):
    description = copy.deepcopy(description)
    part, (*above, name) = description, place.split("/")
    for each in above:
        part = part[int(each)] if isinstance(part, list) else part[each]
    part[name] = value
    return description


HOSTILE = [
    ("settings/backbone.flatten/start_dim", 1e300),
    ("settings/backbone.flatten/start_dim", "x"),
    ("settings/latent/write_draws", 0),
    ("settings/latent/write_draws", True),
    ("settings/latent/cell_variance", -1),
    ("settings/latent/cell_variance", float("nan")),
    ("settings/latent/cell_variance", {"number": "nan"}),
    ("settings/latent/retention", 2),
    ("settings/latent/write_draws", 10**9),
    ("settings//loss_weights/values/local", "x"),
    ("recipe/arguments/cell_variance", 0),
    ("recipe/arguments/num_cells", 2.5),
    ("recipe/arguments/unheard_of", math.inf),
    ("gate/bars/0/threshold", "x"),
    ("gate/bars/0/score", 3),
    ("gate/bars/0/verdict", None),
    ("gate/promise", 1),
    ("monitor/rows", "x"),
    ("monitor/rows", -1),
    ("monitor/detectors/entropy/level", 0),
    ("monitor/detectors/entropy/ranks", [0, "x"]),
    ("monitor/detectors/entropy/shares", [1.5]),
    ("monitor/detectors/entropy/log_total", float("nan")),
    ("domain/widest", 0),
    ("domain/most_prototypes", {}),
    ("domain/fade", 10**30),
    ("gate/bars/0/score", {"function": "x"}),
    ("gate/sampling/draws", True),
]


@pytest.mark.parametrize(("place", "value"), HOSTILE, ids=lambda each: str(each)[:60])
def test_a_hostile_setting_is_refused_when_the_file_is_read(sound, tmp_path, place, value):
    path, name = tmp_path / "hostile.totalcal", place.rpartition("/")[2]
    try:
        write_container(path, sound._replace(description=changed(sound.description, place, value)))
    except ValueError:  # no JSON, and so no file
        return
    with pytest.raises(ModelFileError, match=rf"hostile\.totalcal: it sets .*{name}"):
        totalcal.load(path)


def test_a_memory_whose_tensor_has_another_name_is_refused_when_it_is_read(sound, tmp_path):
    tensors = sound.tensors.replace(b"domain.numbers.reference", b"domain.numbers.referents")
    write_container(tmp_path / "m.totalcal", sound._replace(tensors=tensors))
    with pytest.raises(ModelFileError, match="memory is not as it should be"):
        totalcal.load(tmp_path / "m.totalcal")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("gate/bars/0/by_class", []),
        ("gate/bars/0/by_class", "x"),
        ("summary/before", {"nll": 1.0}),
        ("summary/before/ece", []),
        ("summary/layers", 3),
    ],
)
def test_a_part_that_could_not_be_used_or_printed_is_refused_when_the_file_is_read(
    sound, tmp_path, place, value
):
    write_container(
        tmp_path / "m.totalcal", sound._replace(description=changed(sound.description, place, value))
    )
    with pytest.raises(ModelFileError, match=r"m\.totalcal"):
        totalcal.load(tmp_path / "m.totalcal")


FORGED = {
    "factor": lambda tensor: tensor * math.inf,
    "mean": lambda tensor: tensor.masked_fill(tensor == tensor[0], math.inf),
    "centres": lambda tensor: tensor.half(),
    "prototypes": lambda tensor: tensor[:0],
    "classes": lambda tensor: tensor.double(),
    "each.reference": lambda tensor: tensor.repeat(2, 1),
    "numbers.reference": lambda tensor: tensor[:0],
}


@pytest.mark.parametrize("name", list(FORGED))
def test_a_memory_of_forged_tensors_is_refused_when_it_is_read(sound, tmp_path, name):
    tensors = safetensors.torch.load(sound.tensors)
    tensors[f"model/domain.{name}"] = FORGED[name](tensors[f"model/domain.{name}"]).contiguous()
    write_container(tmp_path / "m.totalcal", sound._replace(tensors=safetensors.torch.save(tensors)))
    with pytest.raises(ModelFileError, match=f"m.totalcal: .*(prototypes|{name})"):
        totalcal.load(tmp_path / "m.totalcal")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", []),
        ("classes", ["x"]),
        ("classes", [9]),
        ("learned", [["x", 30, 30]]),
        ("learned", [[7, 30, 30]]),
    ],
)
def test_a_forged_lesson_is_refused_when_it_is_read(sound, tmp_path, name, value):
    write_container(tmp_path / "m.totalcal", sound)
    model = totalcal.load(tmp_path / "m.totalcal")
    model.memorise(torch.randn(30, 4) / 4 + torch.tensor([0, 0, 0, 30.0]), [3] * 30, name="lesson")
    whole = model.content()
    description = changed(json.loads(json.dumps(whole.description)), f"domain/sets/0/{name}", value)
    write_container(tmp_path / "m.totalcal", whole._replace(description=description))
    with pytest.raises(ModelFileError, match=r"m\.totalcal"):
        totalcal.load(tmp_path / "m.totalcal")


def test_a_layer_may_have_the_name_of_a_setting(tmp_path):
    net = torch.nn.Sequential()
    net.add_module("step", torch.nn.Linear(4, 8))
    net.add_module("rows", torch.nn.Sequential(torch.nn.Linear(8, 3)))
    totalcal.save(totalcal.softmax(net, 3), tmp_path / "m.totalcal")
    assert totalcal.load(tmp_path / "m.totalcal", backbone=copy.deepcopy(net)).process.num_classes == 3


def test_a_calibrator_of_other_classes_is_refused_when_it_is_read(sound, tmp_path):
    tensors = safetensors.torch.load(sound.tensors)
    tensors["model/calibrator.bias"] = torch.zeros(7, dtype=torch.float64)
    write_container(tmp_path / "m.totalcal", sound._replace(tensors=safetensors.torch.save(tensors)))
    with pytest.raises(ModelFileError, match=r"calibrator\.bias"):
        totalcal.load(tmp_path / "m.totalcal")


def test_a_sound_file_is_read(sound, tmp_path):
    write_container(tmp_path / "m.totalcal", sound)
    assert totalcal.load(tmp_path / "m.totalcal").predict(torch.zeros(2, 4)).probabilities.shape == (2, 3)


def test_what_would_be_refused_is_not_written(tmp_path):
    model = totalcal.etp(mlp(4, 3), 3)
    model.latent.cell_variance = -1.0
    with pytest.raises(ModelFileError, match=r"cell_variance to '-1\.0'"):
        totalcal.save(model, tmp_path / "m.totalcal")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("classes", [[1, "1", 2], ["a", "a", "b"]])
def test_names_of_classes_that_no_answer_can_tell_apart_are_refused(tmp_path, classes):
    with pytest.raises(InputError, match="names of classes differ as text"):
        totalcal.save(totalcal.softmax(mlp(4, 3), 3), tmp_path / "m.totalcal", classes=classes)


def test_numbers_too_large_for_a_float_are_refused():
    for value in (10**400, [-(10**400)]):
        with pytest.raises(ModelFileError, match="plain"):
            check_settings({"anything": value})
