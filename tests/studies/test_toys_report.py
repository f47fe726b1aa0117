"""The figures: what they are made of, and the commands that make them."""

import json

import pytest
from typer.testing import CliRunner

from totalcal.cli import studies  # noqa: F401  # registers the commands
from totalcal.cli.app import app
from totalcal.studies.toys import draw_toy, run_toy


@pytest.mark.parametrize("name", ["gaussians", "iris"])
def test_a_figure_names_every_class_and_what_the_paper_leaves_out(name, tmp_path):
    study = run_toy(name, epochs=1)
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # letters as letters
        draw_toy(study, tmp_path / "new" / "figure.svg")
    drawn = (tmp_path / "new" / "figure.svg").read_text()
    assert all(name in drawn for name in study.toy.classes)
    assert all(setting in drawn for setting in ("R = 20", "γ = 0.99", "κ² = 0.1", "point weights"))


def test_the_command_draws_and_prints_its_numbers(tmp_path):
    figure = tmp_path / "two.png"
    arguments = ["toy", "gaussians", "--epochs", "2", "--out", str(figure), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    found = json.loads(result.stdout)
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert found["toy"] == "gaussians"
    assert len(found["dominance"]) == 2
    assert 0 <= found["right_class"] <= 1
