"""A table past the monitor: silent on held-out-like rows, loud on others, kept in the model file."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet
from typer.testing import CliRunner

import totalcal
from totalcal.cli.app import app
from totalcal.decisions.monitor import Monitor, label_scores, watched_scores
from totalcal.decisions.watching import draw, watch_file
from totalcal.errors import InputError
from totalcal.nets import mlp


@pytest.fixture
def model_file(tmp_path):
    """A model whose held-out entropies are uniform on [0, 1]."""
    rng = np.random.default_rng(0)
    held_out = {"entropy": rng.random(500), "nll": rng.exponential(size=500)}
    path = tmp_path / "m.totalcal"
    totalcal.save(totalcal.softmax(mlp(4, 3), num_classes=3), path, monitor=Monitor.start(held_out))
    return path


@pytest.fixture
def table(tmp_path):
    def write(entropies, labels=None):
        path = tmp_path / "out.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "p(0)", "p(1)", "entropy", "decision", *(["label"] if labels else [])])
            for row, entropy in enumerate(entropies):
                cells = [f"row {row}", "0.9", "0.1", f"{entropy:.6g}", "accept"]
                writer.writerow([*cells, *([labels[row]] if labels else [])])
        return path

    return write


def test_rows_like_the_held_out_ones_raise_no_alarm(model_file, table):
    found = watch_file(table(np.random.default_rng(1).random(400)), model_file)
    assert found.status.in_order
    assert found.status.rows == 400
    assert found.status.accepted == 1.0


def test_a_shift_is_found_after_it_came(model_file, table, tmp_path):
    rng = np.random.default_rng(2)
    path = table([*rng.random(200), *(0.95 + 0.1 * rng.random(100))])
    result = CliRunner().invoke(
        app, ["watch", str(path), "--model", str(model_file), "-o", str(tmp_path / "p.png")]
    )
    assert result.exit_code == 4
    assert "entropy shifted" in result.stdout
    assert 200 < watch_file(path, model_file).status.alarms["entropy"] < 260
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_are_watched_as_a_csv_is(model_file, table, tmp_path, kind):
    numbers = np.random.default_rng(2).random(250)
    path = table(numbers, ["0"] * 250)
    columns = {name: [float(x) if name in ("p(0)", "p(1)", "entropy") else x for x in values]
               for name, values in zip(*_transposed(path), strict=True)}  # fmt: skip
    write = {"parquet": parquet.write_table, "arrow": feather.write_feather}[kind]
    write(pa.table(columns), tmp_path / f"out.{kind}")
    assert str(watch_file(tmp_path / f"out.{kind}", model_file).status) == str(
        watch_file(path, model_file).status
    )


def _transposed(path):
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, zip(*rows, strict=True)


def test_scores_without_labels_are_not_drawn_and_the_title_is_not_cut_off(model_file, table, tmp_path):
    found = watch_file(table(np.full(300, 1.5)), model_file)
    draw(
        replace(found, status=replace(found.status, alarms={"entropy": 3, "unfamiliarity": 5})),
        tmp_path / "p.svg",
    )
    drawn = (tmp_path / "p.svg").read_text()
    assert "<!-- entropy -->" in drawn
    assert "<!-- nll -->" not in drawn
    assert drawn.count("alarm: ") == 2
    assert "shifted, noticed at row 3; alarm: unfamiliarity shifted, noticed at row 5" not in drawn


def test_labels_that_turn_wrong_are_noticed_by_the_loss(model_file, table):
    found = watch_file(table(np.random.default_rng(3).random(200), ["1"] * 200), model_file)
    assert "nll" in found.status.alarms


def test_what_cannot_be_watched_is_told(model_file, table, tmp_path):
    bare = tmp_path / "bare.totalcal"
    totalcal.save(totalcal.softmax(mlp(4, 3), num_classes=3), bare)
    with pytest.raises(InputError, match=r"no monitor.*totalcal\.calibrate"):
        watch_file(table([0.5]), bare)
    with pytest.raises(InputError, match="not a class"):
        watch_file(table([0.5], ["9"]), model_file)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="none of the columns"):
        watch_file(tmp_path / "other.csv", model_file)


@pytest.mark.parametrize(("name", "reason"), [("watched.txt", "no figure"), ("no/watched.png", "no folder")])
def test_a_figure_that_cannot_be_drawn_is_refused_before_the_table_is_read(name, reason, tmp_path):
    options = ["--model", "none.totalcal", "-o", str(tmp_path / name)]
    answer = CliRunner().invoke(app, ["watch", "none.csv", *options])
    assert answer.exit_code != 0
    assert reason in str(answer.exception)


def test_a_quote_that_is_never_closed_hides_no_rows(model_file, table):
    path = table(np.full(6, 0.5))
    path.write_text(path.read_text().replace("accept", '"accept', 1))
    with pytest.raises(InputError, match="a quote that is never closed"):
        watch_file(path, model_file)


def test_the_monitor_comes_back_with_its_model(model_file):
    assert set(totalcal.load(model_file).monitor.detectors) == {"entropy", "nll"}


def test_the_watched_scores_are_those_of_the_prediction():
    model = totalcal.softmax(mlp(4, 3), num_classes=3)
    prediction, labels = model.predict(torch.randn(20, 4)), torch.randint(3, (20,))
    found = watched_scores(prediction, labels)
    expected = torch.nn.functional.nll_loss(prediction.probabilities.log(), labels, reduction="none")
    np.testing.assert_allclose(found["nll"], expected)
    np.testing.assert_allclose(found["entropy"], prediction.entropy)
    confidence, best = prediction.probabilities.max(1)
    expected = 1 + confidence - (best == labels).float()
    np.testing.assert_allclose(found["overconfidence"], expected, rtol=1e-6)


def test_labels_of_a_table_tell_how_overconfident_a_model_is(tmp_path, table):
    rng = np.random.default_rng(0)
    told = label_scores(np.where(rng.random(500) < 0.9, 0.9, 0.1), np.full(500, 0.9))
    path = tmp_path / "m.totalcal"
    held_out = {"entropy": rng.random(500), **told}
    totalcal.save(totalcal.softmax(mlp(4, 3), num_classes=3), path, monitor=Monitor.start(held_out))
    labels = ["0" if right else "1" for right in rng.random(400) < 0.6]
    status = watch_file(table(rng.random(400), labels), path).status
    assert "overconfidence" in status.alarms
    assert status.means["overconfidence"][1] - 1 == pytest.approx(0.9 - labels.count("0") / 400, abs=1e-6)


@pytest.mark.parametrize("damage", [b"\xff", b'"'], ids=["no UTF-8", "an open quote"])
def test_a_table_with_a_damaged_cell_is_told(model_file, table, damage):
    path = table([0.1, 0.2, 0.3])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage + b"".join(lines[1:]))
    with pytest.raises(InputError):
        watch_file(path, model_file)


def test_a_row_that_was_cut_is_named_and_not_taken_for_a_short_one(table, model_file):
    path = table([0.1, 0.2, 0.3])
    path.write_text(path.read_text() + "row 3,0.9,0.1,0.5\n")
    with pytest.raises(InputError, match="a row of 4 values"):
        watch_file(path, model_file)


def test_rows_that_another_model_answered_are_refused(table, model_file):
    path = table([0.1, 0.2, 0.3])
    header, *rows = path.read_text().splitlines()
    own = totalcal.load(model_file).digest

    def answered_by(*digests):
        lines = [f"{row},{digest} means" for row, digest in zip(rows, digests, strict=True)]
        path.write_text("\n".join([f"{header},model", *lines]) + "\n")

    answered_by(own, own, own)
    assert watch_file(path, model_file).status.rows == 3
    answered_by(own, "0" * 16, own)
    with pytest.raises(InputError, match="--model"):
        watch_file(path, model_file)


@pytest.mark.parametrize("name", ["decision", "p(0)"])
def test_a_column_that_is_there_twice_is_nobodys_guess(table, model_file, name):
    path = table([0.1, 0.2, 0.3])
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{header},{name}", *(f"{row},0.5" for row in rows)]) + "\n")
    with pytest.raises(InputError, match="two columns"):
        watch_file(path, model_file)
