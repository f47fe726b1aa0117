"""`totalcal export` as a user types it."""

from typer.testing import CliRunner

from totalcal import save
from totalcal.cli import app
from totalcal.predicting.exported import open_exported


def test_export_writes_a_program_beside_the_model_and_says_how_near_it_is(saved_model, rows_of, tmp_path):
    saved = saved_model("softmax", "mlp", whole=False)
    save(saved.model, tmp_path / "m.totalcal", classes=saved.classes, preprocessing=saved.preprocessing)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m.totalcal"), "--to", "pt2", "--draws", "0"])
    assert done.exit_code == 0, done.output
    assert "probabilities, entropy" in done.output.replace("\n", " ")
    assert "from the model on 8 rows" in done.output.replace("\n", " ")
    exported = open_exported(tmp_path / "m.pt2")
    assert exported.classes == saved.classes
    assert exported.predict(rows_of("mlp", 3, seed=6))["probabilities"].shape == (3, 3)
