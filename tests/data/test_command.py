"""`totalcal data` on what needs no file."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from totalcal.cli import app
from totalcal.data import loading
from totalcal.data.description import Split


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def test_list_names_every_set_with_its_terms():
    rows = json.loads(run("list", "--json").output)
    assert {row["name"] for row in rows} >= {"fashion-mnist", "svhn", "imdb", "letters", "gaussians"}
    assert all(row["terms"] and row["homepage"] for row in rows)
    assert "non-commercial" in run("list").output


def test_where_says_what_is_nowhere(cache):
    places = json.loads(run("where", "mnist", "digits", "--json").output)
    assert places == {
        "mnist/train": "nowhere",
        "mnist/test": "nowhere",
        "digits/train": "made on the spot",
        "digits/test": "made on the spot",
    }
    assert "mnist/train" in run("where", "mnist").output


def test_fetch_counts_what_it_brought():
    result = run("fetch", "digits")
    assert result.exit_code == 0
    assert "digits/train: 1297 examples" in result.output


def test_verify_reports_counts_and_means():
    result = run("verify", "iris")
    assert result.exit_code == 0
    assert "5.8433" in result.output


def test_verify_fails_where_the_means_are_others(monkeypatch):
    iris = loading.CATALOGUE["iris"]
    expected = replace(iris, splits={"all": Split(150, mean=(5.8433, 3.0573, 3.7580, 1.3))})
    monkeypatch.setattr(loading, "CATALOGUE", {"iris": expected})
    result = run("verify", "iris")
    assert result.exit_code == 1
    assert "WRONG: mean" in result.output


@pytest.mark.parametrize("command", ["fetch", "verify", "where"])
def test_an_unknown_name_is_an_error(command):
    assert run(command, "mnits").exit_code != 0
