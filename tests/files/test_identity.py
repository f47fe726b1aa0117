"""Which model an answer is from: its file, its export and its service say the same, no other does."""

import csv

import numpy as np
import pytest
import torch

import totalcal
from totalcal.data.preprocessing import Preprocessing
from totalcal.errors import InputError, ModelFileError, UnreadableFileError
from totalcal.files.container import read_container, summary
from totalcal.files.exporting.writing import export_file
from totalcal.files.predicting.exported import open_exported
from totalcal.files.predicting.stream import predict_file
from totalcal.nets import mlp
from totalcal.serving.service import Service

STEPS = Preprocessing((4,), torch.zeros(4), torch.ones(4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for name in ("one", "other"):
        totalcal.save(totalcal.etp(mlp(4, 3), 3), path / f"{name}.totalcal", preprocessing=STEPS)
    for kind in ("onnx", "pt2"):
        export_file(path / "one.totalcal", path / f"one.{kind}")
    np.savez(path / "rows.npz", np.random.default_rng(0).normal(size=(5, 4)))
    return path


@pytest.fixture(scope="module")
def digest(folder):
    return read_container(folder / "one.totalcal").digest


def test_a_model_has_one_name_in_its_file_its_exports_and_its_service(folder, digest):
    loaded = totalcal.load(folder / "one.totalcal")
    found = {open_exported(folder / f"one.{kind}").digest for kind in ("onnx", "pt2")}
    assert found | {loaded.digest, Service(loaded).digest} == {digest}
    assert {dict(summary(folder / f"one.{kind}"))["digest"] for kind in ("totalcal", "onnx", "pt2")} == {
        digest
    }
    assert read_container(folder / "other.totalcal").digest != digest


def test_a_model_keeps_its_name_when_it_is_saved_again_and_loses_it_with_a_weight(folder, digest, tmp_path):
    loaded = totalcal.load(folder / "one.totalcal")
    loaded.save(tmp_path / "again.totalcal")
    assert read_container(tmp_path / "again.totalcal").digest == digest
    with torch.no_grad():
        next(loaded.process.parameters()).flatten()[0] += 1e-6
    assert loaded.digest != digest


@pytest.mark.parametrize("kind", ["totalcal", "onnx", "pt2"])
def test_every_row_of_a_table_says_which_model_answered_it(folder, digest, tmp_path, kind):
    predict_file(folder / f"one.{kind}", folder / "rows.npz", tmp_path / "out.csv", expect=digest[:8])
    with (tmp_path / "out.csv").open() as lines:
        assert [line["model"] for line in csv.DictReader(lines)] == [f"{digest} 10 draws of seed 0"] * 5


@pytest.mark.parametrize("kind", ["totalcal", "onnx", "pt2"])
def test_another_model_than_the_expected_one_is_refused_before_it_answers(folder, tmp_path, kind):
    other = read_container(folder / "other.totalcal").digest
    with pytest.raises(ModelFileError, match=f"and {other} was expected"):
        predict_file(folder / f"one.{kind}", folder / "rows.npz", tmp_path / "out.csv", expect=other)
    with pytest.raises(InputError, match="8 digits or more"):
        predict_file(folder / f"one.{kind}", folder / "rows.npz", tmp_path / "out.csv", expect="a")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_no_changed_bit_of_an_export_is_read(folder, tmp_path, kind):
    whole = (folder / f"one.{kind}").read_bytes()
    draw = np.random.default_rng(0)
    path = tmp_path / f"changed.{kind}"
    for place in draw.integers(0, 8 * len(whole), 50):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(UnreadableFileError, match="checksum"):
            open_exported(path)
    for end in (0, 10, 63, 64, 65, len(whole) - 80, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(UnreadableFileError, match="checksum"):
            open_exported(path)
