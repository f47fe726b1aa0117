"""The toys show what the paper says of them (appendix B), on seeds that nobody chose.

Their figures: what they are made of, and the commands that make them.
"""

import json

import pytest
import torch
from typer.testing import CliRunner

from totalcal.errors import UnknownNameError
from totalcal_lab.cli import studies  # noqa: F401  # registers the commands
from totalcal_lab.cli.app import app
from totalcal_lab.studies.toys import Study, cut, draw_toy, numbers, run_toy, toy_named

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module", params=SEEDS)
def on_a_line(request) -> Study:
    return run_toy("gaussians", seed=request.param)


@pytest.fixture(scope="module")
def on_a_plane() -> Study:
    return run_toy("iris", seed=0)


def test_away_from_the_boundary_the_right_class_has_most_evidence(on_a_line):
    inputs = torch.cat([torch.linspace(-5, -1, 41), torch.linspace(1, 5, 41)]).unsqueeze(1)
    favoured = on_a_line.evidence(inputs, draws=200).mean.argmax(-1)
    assert torch.equal(favoured, (inputs[:, 0] > 0).long())


def test_evidence_for_the_right_class_grows_and_spreads_with_distance(on_a_line):
    left, boundary, right = (on_a_line.evidence(torch.tensor([[x]]), draws=200) for x in (-4.0, 0.0, 4.0))
    for far, k in ((left, 0), (right, 1)):
        assert far.mean[0, k] > boundary.mean[0, k]
        assert far.spread[0, k] > boundary.spread[0, k]


def test_numbers_of_the_line_agree_with_the_figure(on_a_line):
    found = numbers(on_a_line)
    assert found.right_class == 1.0
    assert found.spread_correlation > 0.5
    assert found.accuracy >= 0.7  # the optimal rule for N(±1, 1) is right at 84 % of points


def test_the_memory_prefers_the_right_species_and_most_clearly_the_separate_one(on_a_plane):
    found = numbers(on_a_plane)
    assert found.right_class > 0.95
    assert found.accuracy > 0.93
    assert min(found.dominance) > 1
    assert found.dominance[0] == max(found.dominance)


@pytest.mark.parametrize("name", ["gaussians", "iris"])
def test_cells_settle_where_their_balance_says(name):
    """Writes and forgetting balance at a mean entry of ½; after 400 epochs 1 − 0.99⁴⁰⁰ of it is reached."""
    cells = run_toy(name, seed=3).model.latent.get_buffer("cells")
    assert cells.mean().item() == pytest.approx(0.5 * (1 - 0.99**400), rel=1e-3)


def test_the_same_seed_gives_the_same_study_whatever_else_draws_numbers():
    torch.manual_seed(1)
    first = run_toy("gaussians", seed=5, epochs=3)
    torch.manual_seed(2)
    second = run_toy("gaussians", seed=5, epochs=3)
    inputs = cut(first)
    assert torch.equal(first.evidence(inputs).mean, second.evidence(inputs).mean)


def test_data_are_the_papers():
    two = toy_named("gaussians")(torch.Generator().manual_seed(0))
    assert two.data.inputs.shape == (40, 1)
    assert two.data.labels.bincount().tolist() == [20, 20]
    flowers = toy_named("iris")(torch.Generator())
    assert flowers.data.inputs.shape == (150, 2)
    assert flowers.data.inputs.mean(0).abs().max() < 1e-5  # principal components are centred
    assert flowers.classes == ("setosa", "versicolor", "virginica")


def test_the_reference_of_the_line_is_the_truth():
    two = toy_named("gaussians")(torch.Generator().manual_seed(0))
    inputs = torch.tensor([[-2.0], [0.5]])
    assert torch.allclose(two.distance(inputs), torch.tensor([4.0, 1.0]))  # log-odds of N(±1, 1): 2 |x|
    assert two.right_class(inputs).tolist() == [0, 1]


def test_an_unknown_toy_is_told_by_name():
    with pytest.raises(UnknownNameError, match="gaussians"):
        run_toy("gaussian")


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
