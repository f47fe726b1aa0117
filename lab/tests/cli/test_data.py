"""`totalcal-lab data` on what needs no file, and `totalcal-lab corrupt`."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from totalcal_lab.cli.app import app
from totalcal_lab.data import loading
from totalcal_lab.data.description import Split


def run_data(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def test_list_names_every_set_with_its_terms():
    rows = json.loads(run_data("list", "--json").output)
    assert {row["name"] for row in rows} >= {"fashion-mnist", "svhn", "imdb", "letters", "gaussians"}
    assert all(row["terms"] and row["homepage"] for row in rows)
    assert "non-commercial" in run_data("list").output


def test_where_says_what_is_nowhere(cache):
    places = json.loads(run_data("where", "mnist", "digits", "--json").output)
    assert places == {
        "mnist/train": "nowhere",
        "mnist/test": "nowhere",
        "digits/train": "made on the spot",
        "digits/test": "made on the spot",
    }
    assert "mnist/train" in run_data("where", "mnist").output


def test_fetch_counts_what_it_brought():
    result = run_data("fetch", "digits")
    assert result.exit_code == 0
    assert "digits/train: 1297 examples" in result.output


def test_verify_reports_counts_and_means():
    result = run_data("verify", "iris")
    assert result.exit_code == 0
    assert "5.8433" in result.output


def test_verify_fails_where_the_means_are_others(monkeypatch):
    iris = loading.CATALOGUE["iris"]
    expected = replace(iris, splits={"all": Split(150, mean=(5.8433, 3.0573, 3.7580, 1.3))})
    monkeypatch.setattr(loading, "CATALOGUE", {"iris": expected})
    result = run_data("verify", "iris")
    assert result.exit_code == 1
    assert "WRONG: mean" in result.output


@pytest.mark.parametrize("command", ["fetch", "verify", "where"])
def test_an_unknown_name_is_an_error(command):
    assert run_data(command, "mnits").exit_code != 0


IMAGES = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)


def run_corrupt(*words):
    return CliRunner().invoke(app, ["corrupt", *map(str, words)])


def test_corrupt_draws_a_sheet_and_saves_a_type(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    result = run_corrupt(
        tmp_path / "images.npy", "--sheet", tmp_path / "s.png", "--save", tmp_path / "out", "--type", "fog"
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert np.load(tmp_path / "out" / "fog.npy").shape == (15, 28, 28)


def test_corrupt_wants_to_know_what_to_make(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    result = run_corrupt(tmp_path / "images.npy")
    assert result.exit_code == 2
    assert "--sheet" in result.output


def test_an_image_that_there_is_not_is_a_wrong_use(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((2, 32, 32, 3), np.uint8))
    result = run_corrupt(tmp_path / "images.npy", "--sheet", tmp_path / "a.png", "--index", 2)
    assert result.exit_code == 2
    assert not (tmp_path / "a.png").exists()
