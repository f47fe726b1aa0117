"""A net of the user's own, named on the command line: never by the file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from typer.testing import CliRunner

import totalcal
from totalcal.cli import app
from totalcal.errors import InputError, ModelFileError, UnknownNameError
from totalcal.files.predicting.stream import predict_file
from totalcal.files.user_nets import load_named, made_backbone

CODE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, rows):
        return self.layers(rows)

class Texts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.classes = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, ids, mask):
        weights = mask / mask.sum(1, keepdim=True)
        return self.classes((self.words(ids) * weights.unsqueeze(-1)).sum(1))

def wider(): return Net(16)
def other(): return nn.Linear(4, 3)
def hungry(width): return Net(width)
def none(): return 1
number = 7
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A module in the current folder, a model around its net, and that model's file."""
    (tmp_path / "own_nets.py").write_text(CODE)
    (tmp_path / "broken_nets.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != ""])
    monkeypatch.delitem(sys.modules, "own_nets", raising=False)
    torch.manual_seed(0)
    model = totalcal.etp(made_backbone("own_nets:Net"), num_classes=3)
    rows = torch.randn(40, 4)
    preprocessing = totalcal.Preprocessing.fitted(rows.numpy(), columns=list("abcd"))
    totalcal.save(model, tmp_path / "own.totalcal", preprocessing=preprocessing)
    np.savez(tmp_path / "rows.npz", rows.numpy())
    return tmp_path


def test_a_file_with_the_users_net_predicts_as_the_model_did(own_code):
    restored = load_named("own.totalcal", "own_nets:Net")
    assert isinstance(restored.process.backbone.layers, nn.Sequential)
    by_hand = totalcal.load("own.totalcal", backbone=made_backbone("own_nets:Net"))
    rows = np.load("rows.npz")["arr_0"]
    assert torch.equal(restored.predict(rows).probabilities, by_hand.predict(rows).probabilities)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("own_nets", InputError, "package.module:factory"),
        ("no_nets:Net", InputError, "no module no_nets"),
        ("own_nets.deeper:Net", InputError, "own_nets"),
        ("broken_nets:Net", InputError, "no_such_package_anywhere"),
        ("own_nets:Nett", UnknownNameError, "Did you mean 'Net'"),
        ("own_nets:number", InputError, "but is a int"),
        ("own_nets:hungry", InputError, "called without arguments"),
        ("own_nets:none", InputError, "gives a int"),
    ],
)
def test_what_makes_no_net_is_refused_with_the_reason(own_code, name, error, words):
    with pytest.raises(error, match=words):
        made_backbone(name)


def test_weights_that_do_not_fit_are_refused(own_code):
    with pytest.raises(ModelFileError, match="as it was"):
        load_named("own.totalcal", "own_nets:wider")


def test_layers_that_a_domain_memory_reads_and_the_net_lacks_are_told_in_words(own_code):
    model, rows = load_named("own.totalcal", "own_nets:Net").process, torch.randn(40, 4)
    data = rows, torch.arange(40) % 3
    totalcal.remember(model, data, data, layers="layers.0")
    totalcal.save(model, "remembers.totalcal")
    with pytest.raises(ModelFileError, match=r"'layers\.0'.*exactly as it was"):
        load_named("remembers.totalcal", "own_nets:other")


def test_the_file_asks_for_a_net_that_nobody_named(own_code):
    with pytest.raises(ModelFileError, match=r"--backbone package\.module:factory"):
        load_named("own.totalcal")


def test_predict_takes_the_net_from_the_current_folder(own_code):
    command = [sys.executable, "-c", "from totalcal.cli import main; main()", "predict", "own.totalcal"]
    command += ["rows.npz", "-o", "out.csv", "--backbone", "own_nets:Net"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len((own_code / "out.csv").read_text().splitlines()) == 41


def test_export_takes_it_too(own_code, monkeypatch):
    from totalcal.files.exporting import writing

    exported = []
    monkeypatch.setattr(writing, "export", lambda saved, *_, **__: exported.append(saved))
    CliRunner().invoke(app, ["export", "own.totalcal", "own.onnx", "--backbone", "own_nets:Net"])
    assert type(exported[0].process.backbone).__name__ == "Net"


def test_serve_takes_it_too(own_code, monkeypatch):
    from totalcal.serving import listening

    served = []
    monkeypatch.setattr(listening, "run", lambda service, host, port: served.append(service))
    command = ["serve", "own.totalcal", "--backbone", "own_nets:Net", "--draws", "moments"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert type(served[0].saved.process.backbone).__name__ == "Net"
    assert served[0].draws == "moments"


@pytest.fixture
def texts(own_code):
    """A model of two tensors, and rows for it: by name, by position, and with labels beside them."""
    torch.manual_seed(0)
    totalcal.save(totalcal.etp(made_backbone("own_nets:Texts"), num_classes=3), "texts.totalcal")
    ids, mask = np.arange(60).reshape(10, 6) % 9, np.tri(10, 6, dtype=np.float32)
    np.savez("texts.npz", ids=ids, mask=mask, labels=np.zeros(10))
    np.savez("positions.npz", ids, mask)
    return {"ids": ids, "mask": mask}


@pytest.mark.parametrize("file", ["texts.npz", "positions.npz"])
def test_a_net_of_several_tensors_predicts_from_several_arrays(texts, file):
    command = ["predict", "texts.totalcal", file, "-o", "out.csv", "--backbone", "own_nets:Texts"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    expected = load_named("texts.totalcal", "own_nets:Texts").predict(texts).probabilities
    written = np.loadtxt("out.csv", delimiter=",", skiprows=1, usecols=(2, 3, 4))
    assert_allclose(written, expected, rtol=1e-4)


@pytest.mark.parametrize("file", ["texts.npz", "positions.npz"])
def test_so_does_its_exported_program(texts, file):
    export = ["export", "texts.totalcal", "texts.pt2", "--example", file, "--backbone", "own_nets:Texts"]
    for command in (export, ["predict", "texts.pt2", file, "-o", "out.csv"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    expected = load_named("texts.totalcal", "own_nets:Texts").predict(texts).probabilities
    written = np.loadtxt("out.csv", delimiter=",", skiprows=1, usecols=(2, 3, 4))
    assert_allclose(written, expected, rtol=1e-4)


def test_arrays_of_other_names_are_refused_in_words(texts):
    np.savez("others.npz", tokens=texts["ids"], mask=texts["mask"])
    with pytest.raises(InputError, match=r"ids, mask, .* tokens, mask"):
        predict_file(Path("texts.totalcal"), Path("others.npz"), Path("out.csv"), backbone="own_nets:Texts")
