"""Nets judged by votes, on a small CIFAR-10 of the tests' own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from totalcal.data import Arrays
from totalcal.errors import DataError, InputError
from totalcal_lab.cli.app import app
from totalcal_lab.grid import people
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.store import read_records

ROWS = 400


@pytest.fixture(scope="module")
def sets():
    random = np.random.default_rng(0)
    labels = random.integers(10, size=ROWS)
    images = (20 * labels[:, None, None, None] + random.integers(50, size=(ROWS, 32, 32, 3))).astype(np.uint8)
    sure = np.where(np.arange(ROWS) % 2, 0.6, 0.99)[:, None]
    votes = random.multinomial(50, sure * np.eye(10)[labels] + (1 - sure) / 10)
    return {
        "cifar-10": Arrays(images, labels),
        "cifar-10h": Arrays(votes.astype(np.float32), votes.argmax(1)),
    }


@pytest.fixture(scope="module")
def runs(sets, tmp_path_factory):
    root: Path = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        given(patch, sets)
        settings = {"epochs": 1, "widths": [4, 4, 8], "test_limit": 50, "panel": [], "held_out": 200}
        torch.set_num_threads(1)
        grid = Grid("cifar10", "laptop", settings)
        grid_jobs(grid.configurations(["softmax"], seeds=2), root).run("sequential", 1)
    return root


def given(patch, sets):
    from totalcal_lab.data import domain
    from totalcal_lab.data.arrays import statistics
    from totalcal_lab.data.cache import Decoded

    def load(name, split="test", data_dir=None):
        return sets[name]

    patch.setattr(domain, "load_set", load)
    patch.setattr(
        domain, "load_with_statistics", lambda name, *_: Decoded(sets[name], statistics(sets[name].inputs))
    )
    patch.setattr(people, "load_set", load)


def test_each_net_has_two_lines_and_seeds_make_an_ensemble(runs, sets, monkeypatch, tmp_path):
    given(monkeypatch, sets)
    out, figure = tmp_path / "people.jsonl", tmp_path / "people.png"
    done = CliRunner().invoke(
        app, ["truth", "people", str(runs), "--records", str(out), "--figure", str(figure)]
    )
    assert done.exit_code == 0, done.output
    lines = read_records(out)
    forms = [line["form"] for line in lines if line["model"] == "softmax"]
    assert forms == ["as it is", "calibrated"] * 2 + ["ensemble of 2"]
    assert all(0 <= line["people_ece"] <= 1 for line in lines if "people_ece" in line)
    assert all(("asked_ambiguous" in line) == (line["form"] == "calibrated") for line in lines)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_votes_of_other_images_are_refused():
    with pytest.raises(DataError, match="order"):
        people.votes_of(np.eye(10), np.roll(np.arange(10), 1))


def test_a_folder_without_a_run_on_cifar_10_is_refused():
    with pytest.raises(InputError, match="cifar10"):
        next(people.judge_people([]))
