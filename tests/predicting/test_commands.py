import subprocess
import sys

from numpy.testing import assert_allclose
from typer.testing import CliRunner

from totalcal.cli import app
from totalcal.files.saved import load


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_inspect_shows_model_gate_and_price(model_file):
    shown = run("inspect", model_file).output
    for word in (
        "etp(num_classes=3, num_cells=20",
        "mlp(",
        "20 cells",
        "setosa, versicolor, virginica",
        "accepts",
        "error 0.05",
    ):
        assert word in shown


def test_inspect_never_imports_torch(model_file):
    program = (
        "import sys\nfrom pathlib import Path\nfrom totalcal.files.container import summary\n"
        f"summary(Path({str(model_file)!r}))\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_predict_writes_a_line_for_each_row(model_file, table, tmp_path, lines):
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert "150 rows, 150 of them now" in result.output
    assert len(lines(tmp_path / "out.csv")) == 150


def test_a_refused_row_shows_in_the_exit_status(model_file, table, tmp_path):
    table.write_text(table.read_text() + "1,2,three,4\n")
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv")
    assert result.exit_code == 3, result.output
    assert "1 could not be used" in result.output
    assert (tmp_path / "out.csv").exists()


def test_moments_may_take_the_place_of_draws(estimator, iris, tmp_path, lines):
    estimator.save(tmp_path / "iris.totalcal")
    iris[0].to_csv(tmp_path / "iris.csv", index=False)
    result = run(
        "predict",
        tmp_path / "iris.totalcal",
        tmp_path / "iris.csv",
        "-o",
        tmp_path / "out.csv",
        "--draws",
        "moments",
    )
    assert result.exit_code == 0, result.output
    saved = load(tmp_path / "iris.totalcal")
    expected = saved.predict(iris[0].to_numpy(), draws="moments").entropy
    assert_allclose([float(line["entropy"]) for line in lines(tmp_path / "out.csv")], expected, rtol=1e-5)


def test_draws_that_are_no_number_are_refused(model_file, table, tmp_path):
    result = run("predict", model_file, table, "-o", tmp_path / "out.csv", "--draws", "many")
    assert result.exit_code == 2
    assert "moments" in result.output
