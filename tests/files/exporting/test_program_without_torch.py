"""`totalcal predict model.onnx` needs onnxruntime alone: an import of torch would be an error there."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from totalcal.errors import ModelFileError
from totalcal.files.predicting.exported import open_exported

PROGRAM = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("torch is not to be imported", name=name)

sys.meta_path.insert(0, NoTorch())
from totalcal.cli import main
main()
"""


def predict(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "predict", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_an_onnx_predicts_where_there_is_no_torch(exported_mlp, rows_of, tmp_path, kind):
    saved, model = exported_mlp
    rows, inputs = rows_of("mlp", 40, seed=5), tmp_path / f"rows.{kind}"
    if kind == "npz":
        np.savez(inputs, inputs=rows)
    else:
        np.savetxt(inputs, rows, delimiter=",", header="a,b,c,d", comments="", fmt="%.9g")
    done = predict(model, inputs, "-o", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    prediction = saved.predict(rows)
    written = [[float(line[f"p({name})"]) for name in saved.classes] for line in lines]
    assert_allclose(written, prediction.probabilities, atol=2e-6)
    assert [line["decision"] for line in lines] == saved.gate(prediction).verdicts
    assert [line["reason"] for line in lines] == saved.gate(prediction).reasons
    assert_allclose([float(line["unfamiliarity"]) for line in lines], prediction.unfamiliarity, rtol=1e-3)


def test_a_program_that_is_not_there_is_refused_in_one_line(tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        open_exported(tmp_path / "model.onnx")


def test_what_needs_torch_says_so_and_what_does_not(tmp_path):
    (tmp_path / "model.totalcal").write_bytes(b"a model")
    done = predict(tmp_path / "model.totalcal", tmp_path / "rows.npz", "-o", tmp_path / "out.csv")
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    assert "totalcal predict model.onnx" in done.stderr


def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no model")
    np.savez(tmp_path / "rows.npz", inputs=np.zeros((2, 4)))
    done = predict(tmp_path / "model.onnx", tmp_path / "rows.npz", "-o", tmp_path / "out.csv")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "UnreadableFileError" in done.stderr
