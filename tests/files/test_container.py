"""Whatever a file holds, loading it gives a model or a clear refusal, and never runs or unpacks anything."""

import contextlib
import json
import resource
import time
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from totalcal.errors import InputError, ModelFileError
from totalcal.files.container import read_container
from totalcal.files.saved import load, save


@pytest.fixture
def path(tmp_path, recipe):
    save(recipe.build(), tmp_path / "it.totalcal")
    return tmp_path / "it.totalcal"


def rewrite(path, change=lambda description: None, tensors=None, compression=zipfile.ZIP_STORED, extra=None):
    """The same file with another description, other tensors, or another member."""
    description, found, _ = read_container(path)
    change(description)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("description.json", json.dumps(description))
        archive.writestr("tensors.safetensors", found if tensors is None else tensors)
        for name, content in (extra or {}).items():
            archive.writestr(name, content)


def test_names_that_no_file_can_hold_are_refused_when_it_is_written(tmp_path, recipe):
    with pytest.raises(InputError, match="names"):
        save(recipe.build(), tmp_path / "it.totalcal", classes=["a", "half \ud800", "c"])
    assert not list(tmp_path.iterdir())


def test_a_rewritten_file_is_read(path):
    rewrite(path)
    assert load(path).process.num_classes == 3


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_truncated_file_is_refused(path, data):
    content = path.read_bytes()
    cut = path.with_name("cut")
    cut.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(ModelFileError):
        load(cut)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_byte_is_refused_or_harmless(path, data):
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    bad = path.with_name("bad")
    bad.write_bytes(content)
    whole = load(path).process.state_dict()
    try:
        found = load(bad).process.state_dict()
    except ModelFileError:
        return
    assert all(torch.equal(found[name], whole[name]) for name in whole)  # a date, say, is free to change


def test_a_file_of_another_format_is_refused_by_its_number(path):
    rewrite(path, lambda description: description.update(format=4))
    with pytest.raises(ModelFileError, match="format 4"):
        load(path)


def test_a_compressed_member_is_refused_before_it_is_read(path):
    rewrite(path, tensors=bytes(10**7), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ModelFileError, match="is compressed"):
        load(path)


def test_a_member_too_many_is_refused(path):
    rewrite(path, extra={"../../evil.pkl": b"cos\nsystem\n(S'true'\ntR."})
    with pytest.raises(ModelFileError, match="3 members"):
        load(path)


def test_a_pickle_is_no_model_file(tmp_path, recipe):
    torch.save(recipe.build(), tmp_path / "model.pt")
    with pytest.raises(ModelFileError, match="not a model file"):
        load(tmp_path / "model.pt")


def test_a_pickle_in_the_place_of_tensors_is_refused(path):
    rewrite(path, tensors=b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)


def test_an_oversized_file_is_refused_unless_it_is_trusted(path):
    with pytest.raises(ModelFileError, match="larger `largest`"):
        load(path, largest=1000)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_inputs": 10**9, "hidden": [10**9]},
        {"num_inputs": 4, "hidden": [9]},
        {"num_inputs": 4, "hidden": [1] * 100},
        {"num_inputs": -1},
        {"no_such": 4},
    ],
    ids=str,
)
def test_a_recipe_that_does_not_fit_its_tensors_is_refused(path, arguments):
    rewrite(path, lambda description: description["recipe"].update(backbone_arguments=arguments))
    with pytest.raises(ModelFileError):
        load(path)


def test_cells_beyond_all_memory_are_never_allocated(path):
    rewrite(path, lambda description: description["recipe"].update(arguments={"num_cells": 10**14}))
    with pytest.raises(ModelFileError, match="num_cells"):
        load(path)


def test_an_unknown_model_is_named(path):
    rewrite(path, lambda description: description["recipe"].update(model="os.system"))
    with pytest.raises(ModelFileError, match=r"there is no model 'os\.system'"):
        load(path)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"format": "1"}', '{"format": 1}', "\x00"])
def test_a_description_that_is_none_is_refused(path, text):
    tensors = read_container(path).tensors
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("description.json", text)
        archive.writestr("tensors.safetensors", tensors)
    with pytest.raises(ModelFileError):
        load(path)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["recipe", "gate", "classes", "preprocessing", "scores"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_nonsense_in_any_place_is_refused_or_harmless(path, place, nonsense):
    description, tensors, _ = read_container(path)
    other = path.with_name("other")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("description.json", json.dumps(description | {place: nonsense}))
        archive.writestr("tensors.safetensors", tensors)
    with contextlib.suppress(ModelFileError):
        load(other)


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2"])
def test_an_exported_program_is_not_taken_for_a_damaged_model_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"a program")
    with pytest.raises(ModelFileError, match="exported program"):
        read_container(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        load(tmp_path / "none.totalcal")


@pytest.mark.parametrize(
    ("backbone", "arguments", "model", "own"),
    [
        ("lstm", {"layers": 10**7, "hidden": 1, "embedding": 1, "vocabulary": 1}, "softmax", {}),
        ("lstm", {"layers": 10**7, "hidden": 0, "embedding": 0, "vocabulary": 0}, "softmax", {}),
        ("mlp", {"num_inputs": 4, "hidden": [10**4] * 60}, "etp", {}),
        ("resnet18", {"width": 4096}, "softmax", {}),
        ("mlp", {"num_inputs": 4}, "etp", {"num_cells": 333_333}),
        ("mlp", {"num_inputs": 4}, "anp", {"width": 30_000}),
        ("mlp", {"num_inputs": 4}, "neural_process", {"width": 30_000}),
    ],
)
def test_a_recipe_that_asks_for_much_is_refused_at_once(path, backbone, arguments, model, own):
    """Neither ten million layers nor gigabytes of weights are made to find out that they do not fit."""

    def change(description):
        description["recipe"].update(
            backbone=backbone, backbone_arguments=arguments, model=model, arguments=own, num_classes=3
        )

    rewrite(path, change)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(ModelFileError):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes
    assert time.process_time() - start < 5
