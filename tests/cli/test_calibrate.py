"""`totalcal calibrate` and `totalcal report` as people type them."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

import totalcal
from totalcal.cli import app
from totalcal.errors import InputError
from totalcal.nets import mlp

NET = """
import torch

def trained():
    torch.manual_seed(0)
    net = torch.nn.Linear(6, 3)
    rows = torch.load("train.pt")
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(rows[0]), rows[1]).backward()
        optimizer.step()
    return net
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table():
    return make_classification(900, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)


def test_an_own_net_becomes_a_file_and_a_page(table, tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    inputs, labels = table[0].astype(np.float32), table[1]
    for name, rows in {"train": slice(300), "held": slice(300, 600), "test": slice(600, 900)}.items():
        np.savez(f"{name}.npz", inputs=inputs[rows], labels=labels[rows])
    np.savez("far.npz", inputs=inputs[600:] + 50)
    torch.save((torch.tensor(inputs[:300]), torch.tensor(labels[:300])), "train.pt")
    (tmp_path / "my_own_net.py").write_text(NET)
    net = ("--backbone", "my_own_net:trained")
    made = run("calibrate", *net, "--train", "train.npz", "--held-out", "held.npz", "-o", "it.totalcal")
    assert made.exit_code == 0, made.output
    assert "not my domain" in made.output
    told = run("report", "it.totalcal", "test.npz", "--ood", "far.npz", *net, "-o", "page.html")
    assert told.exit_code == 0, told.output
    assert "0.0% of far" in told.output
    assert (tmp_path / "page.html").exists()


WORDS = """
import torch

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.classes = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 3)

    def forward(self, ids, mask):
        return self.classes((self.words(ids) * mask.unsqueeze(-1)).sum(1))
"""


@pytest.mark.parametrize("named", [True, False])
def test_a_net_of_several_tensors_is_calibrated_and_judged_from_files(named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = f"net_of_words_{named}"
    (tmp_path / f"{module}.py").write_text(WORDS)
    noise = np.random.default_rng(0)
    for name, count in {"train": 200, "held": 200, "test": 100}.items():
        ids, mask = noise.integers(0, 9, (count, 5)), noise.random((count, 5)) < 0.8
        parts = {"labels": ids[:, 0] % 3, "ids": ids, "mask": mask}
        if named:
            np.savez(f"{name}.npz", **parts)
        else:
            np.savez(f"{name}.npz", ids, mask, labels=parts["labels"])
    net = ("--backbone", f"{module}:Words")
    made = run("calibrate", *net, "--train", "train.npz", "--held-out", "held.npz", "-o", "it.totalcal")
    assert made.exit_code == 0, made.output
    told = run("report", "it.totalcal", "test.npz", "--ood", "held.npz", *net, "-o", "page.md")
    assert told.exit_code == 0, told.output
    done = run("predict", "it.totalcal", "test.npz", "-o", "out.csv", *net)
    assert done.exit_code == 0, done.output


def test_a_table_of_probabilities_becomes_a_model(table, tmp_path):
    forest = RandomForestClassifier(20, random_state=0).fit(table[0][:300], table[1][:300])
    frame = pd.DataFrame(forest.predict_proba(table[0][300:]), columns=["a", "b", "c"])
    frame["label"] = np.array(["a", "b", "c"])[table[1][300:]]
    frame.to_csv(tmp_path / "p.csv", index=False)
    made = run("calibrate", tmp_path / "p.csv", "-o", tmp_path / "p.totalcal")
    assert made.exit_code == 0, made.output
    assert totalcal.load(tmp_path / "p.totalcal").classes == ("a", "b", "c")


def test_a_column_with_many_ties_becomes_a_model_that_takes_columns(tmp_path):
    """Nine of ten scores are .95, where 70 % are right."""
    noise = np.random.default_rng(0)
    tied = noise.random(600) < 0.9
    score = np.where(tied, 0.95, noise.random(600).round(2))
    right = noise.random(600) < np.where(tied, 0.7, score / 2)
    pd.DataFrame({"yes": score, "label": np.where(right, "yes", "no")}).to_csv(
        tmp_path / "p.csv", index=False
    )
    made = run("calibrate", tmp_path / "p.csv", "-o", tmp_path / "p.totalcal")
    assert made.exit_code == 0, made.output
    model = totalcal.load(tmp_path / "p.totalcal")
    assert model.predict(np.array([0.95])).top(1)[0][0] == ("yes", pytest.approx(0.7, abs=0.05))


def test_a_saved_estimator_is_calibrated_on_tables(tmp_path):
    frame = load_iris(as_frame=True).frame.rename(columns={"target": "label"}).sample(frac=1, random_state=0)
    rows = frame.drop(columns="label")
    estimator = totalcal.SoftmaxClassifier(max_epochs=10).fit(rows[:70], frame["label"][:70])
    estimator.save(tmp_path / "iris.totalcal")
    frame[:70].to_csv(tmp_path / "train.csv", index=False)
    frame[70:].to_csv(tmp_path / "held.csv", index=False)
    parts = ("--train", tmp_path / "train.csv", "--held-out", tmp_path / "held.csv")
    made = run("calibrate", tmp_path / "iris.totalcal", *parts, "-o", tmp_path / "it.totalcal")
    assert made.exit_code == 0, made.output
    assert totalcal.load(tmp_path / "it.totalcal").summary is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"b": "x"}, "'b' holds 'x' in row 2"),
        ({"b": np.nan}, "'b' holds NaN or infinity in row 2"),
        ({"label": "z"}, "the column 'label' of .* holds 'z'"),
        ({"label": None}, "no `labels`"),
    ],
)
@pytest.mark.parametrize("command", ["calibrate", "score"])
def test_what_is_wrong_in_a_table_of_probabilities_is_named_by_its_column(command, change, said, tmp_path):
    frame = pd.DataFrame({"a": [0.75, 0.25] * 30, "b": [0.25, 0.75] * 30, "label": ["a", "b"] * 30})
    (column, value), path = *change.items(), tmp_path / "p.csv"
    frame = frame.astype(object) if value is not None else frame.drop(columns=column)
    if value is not None:
        frame.loc[2, column] = value
    frame.to_csv(path, index=False)
    more = ["-o", tmp_path / "it.totalcal"] if command == "calibrate" else []
    answer = run(command, path, *more)
    assert isinstance(answer.exception, InputError)
    assert re.search(said, str(answer.exception))


def test_what_is_missing_is_said(tmp_path):
    assert "--train" in str(run("calibrate", "--backbone", "a:b", "-o", tmp_path / "x.totalcal").exception)


def test_ood_files_of_one_name_or_of_a_name_that_is_no_text(table, tmp_path):
    inputs, labels = table[0].astype(np.float32), table[1]
    totalcal.save(totalcal.softmax(mlp(6, 3), 3), tmp_path / "it.totalcal")
    np.savez(tmp_path / "test.npz", inputs=inputs[:90], labels=labels[:90])
    strange = tmp_path / os.fsdecode(b"n\xff.npz")
    np.savez(strange, inputs=inputs[90:120])
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other" / "test.npz", inputs=inputs[90:120])
    asked = "report", tmp_path / "it.totalcal", tmp_path / "test.npz", "-o", tmp_path / "page.html"
    told = run(*asked, "--ood", strange)
    assert told.exit_code == 0, told.output
    twice = run(*asked, "--ood", tmp_path / "test.npz", "--ood", tmp_path / "other" / "test.npz")
    assert "two OOD sets" in str(twice.exception)
