import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from numpy.testing import assert_allclose
from PIL import Image

from totalcal import Gate, etp, remember
from totalcal.data.preprocessing import Preprocessing
from totalcal.decisions import Coverage
from totalcal.errors import GateError, InputError
from totalcal.files.predicting.stream import predict_file
from totalcal.files.saved import load, save
from totalcal.nets import mlp, small_convnet


def test_a_table_gets_the_predictions_of_the_estimator(model_file, table, estimator, iris, tmp_path, lines):
    predict_file(model_file, table, tmp_path / "out.csv", chunk_size=40)
    found = lines(tmp_path / "out.csv")
    assert [line["class"] for line in found] == list(estimator.predict(iris[0]))
    columns = [f"p({name})" for name in estimator.classes_]
    written = [[float(line[column]) for column in columns] for line in found]
    assert_allclose(written, estimator.predict_proba(iris[0]), rtol=1e-4)
    entropies = [float(line["entropy"]) for line in found]
    assert_allclose(entropies, estimator.predict_uncertainty(iris[0])["entropy"], rtol=1e-4)
    rejected = [line for line in found if line["decision"] != "accept"]
    assert 0.1 < len(rejected) / len(found) < 0.3
    assert all(line["reason"].startswith("entropy") for line in rejected)


def test_bad_rows_are_named_and_the_others_get_their_line(model_file, table, tmp_path, lines):
    content = table.read_text().splitlines()
    content[3] = "1,2,three,4"
    content[5] = "1,2,3"
    content[7] = "1,2,nan,4"
    table.write_text("\n".join(content))
    done = predict_file(model_file, table, tmp_path / "out.csv")
    assert (done.rows, done.bad_rows) == (150, 3)
    assert (tmp_path / "out.csv.bad").read_text().splitlines() == [
        "row 2,holds a value that is not a number in the column 'sepal width (cm)'",
        'row 4,"has 3 columns, the header has 4"',
        "row 6,holds NaN or infinity in the column 'sepal width (cm)'",
    ]
    names = [line["row"] for line in lines(tmp_path / "out.csv")]
    assert names == [f"row {number}" for number in range(150) if number not in (2, 4, 6)]


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(model_file, table, tmp_path):
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from totalcal.files.predicting.stream import predict_file\n"
        "seen = []\n"
        "def die(rows):\n"
        "    seen.append(rows)\n"
        "    if sum(seen) >= 60: os.kill(os.getpid(), signal.SIGKILL)\n"
        "predict_file(*map(Path, sys.argv[1:]), chunk_size=20, on_rows=die)\n"
    )
    whole, killed = tmp_path / "whole.csv", tmp_path / "killed.csv"
    command = [sys.executable, "-c", program, model_file, table, killed]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert not killed.exists()
    with (tmp_path / "killed.csv.part").open("ab") as part:
        part.write(b"row 60,half a li")  # what a kill in the middle of a write leaves
    done = predict_file(model_file, table, killed, chunk_size=20)
    assert (done.rows, done.rows_now) == (150, 90)
    predict_file(model_file, table, whole, chunk_size=20)
    assert killed.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.glob("killed*")) == ["killed.csv"]


def stop(rows):
    """Interrupts a run after its first chunk."""
    if rows:
        raise KeyboardInterrupt


def test_other_inputs_are_not_taken_for_the_rest(model_file, table, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        predict_file(model_file, table, tmp_path / "out.csv", chunk_size=20, on_rows=stop)
    table.write_text(table.read_text() + "1,2,3,4\n")
    with pytest.raises(InputError, match="other inputs"):
        predict_file(model_file, table, tmp_path / "out.csv", chunk_size=20)


def test_an_output_is_never_overwritten(model_file, table, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        predict_file(model_file, table, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "mine"


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_array_gives_what_the_table_gives(write, model_file, table, iris, tmp_path, lines):
    write(tmp_path / "iris.npz", inputs=iris[0].to_numpy(), labels=iris[1].to_numpy())
    predict_file(model_file, table, tmp_path / "one.csv")
    predict_file(model_file, tmp_path / "iris.npz", tmp_path / "two.csv", chunk_size=64)
    one, two = lines(tmp_path / "one.csv"), lines(tmp_path / "two.csv")
    assert [line["class"] for line in one] == [line["class"] for line in two]


def test_a_pickle_in_an_array_file_is_refused(model_file, tmp_path):
    np.savez(tmp_path / "bad.npz", inputs=np.array([{}, []], dtype=object))
    with pytest.raises(InputError, match="not numbers"):
        predict_file(model_file, tmp_path / "bad.npz", tmp_path / "out.csv")


@pytest.fixture
def image_model(tmp_path):
    preprocessing = Preprocessing((1, 8, 8), torch.tensor(0.5), torch.tensor(0.5))
    torch.manual_seed(0)
    model = etp(small_convnet(2), 2)
    save(model, tmp_path / "it.totalcal", classes=["a", "b"], preprocessing=preprocessing)
    return tmp_path / "it.totalcal"


def test_a_folder_of_images_is_read_in_order_of_names(image_model, tmp_path, lines):
    (tmp_path / "images").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    for name, image in zip(["c.png", "a.png", "b.png"], pixels, strict=True):
        Image.fromarray(image).save(tmp_path / "images" / name)
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(tmp_path / "images" / "d.png")
    (tmp_path / "images" / "e.png").write_bytes(b"no image")
    predict_file(image_model, tmp_path / "images", tmp_path / "out.csv")
    np.savez(tmp_path / "images.npz", pixels[[1, 2, 0], None] / 255)
    predict_file(image_model, tmp_path / "images.npz", tmp_path / "again.csv")
    found, again = lines(tmp_path / "out.csv"), lines(tmp_path / "again.csv")
    assert [line["row"] for line in found] == ["a.png", "b.png", "c.png"]
    assert [line["entropy"] for line in found] == [line["entropy"] for line in again]
    complaints = (tmp_path / "out.csv.bad").read_text()
    assert 'd.png,"has 9×8 pixels, the model takes 8×8"' in complaints
    assert "e.png,is not a readable image" in complaints


def test_an_output_beside_the_images_does_not_count_as_one_of_the_inputs(image_model, tmp_path, lines):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / name)
    with pytest.raises(KeyboardInterrupt):
        predict_file(image_model, folder, folder / "out.csv", chunk_size=1, on_rows=stop)
    predict_file(image_model, folder, folder / "out.csv", chunk_size=1)
    assert [line["row"] for line in lines(folder / "out.csv")] == ["a.png", "b.png"]


def test_a_table_without_a_column_is_refused_before_any_work(model_file, table, tmp_path):
    table.write_text(table.read_text().replace("petal width (cm)", "width"))
    with pytest.raises(InputError, match=r"lacks .*petal width"):
        predict_file(model_file, table, tmp_path / "out.csv")


def test_other_draws_than_those_of_the_gate_are_refused_before_any_work(model_file, table, tmp_path):
    with pytest.raises(GateError, match="promise"):
        predict_file(model_file, table, tmp_path / "out.csv", draws=20)
    assert not list(tmp_path.glob("out*"))


def test_strict_ends_at_the_first_bad_row_and_names_it(model_file, table, tmp_path):
    content = table.read_text().splitlines()
    content[3] = "1,2,three,4"
    table.write_text("\n".join(content))
    with pytest.raises(InputError, match="row 2"):
        predict_file(model_file, table, tmp_path / "out.csv", strict=True)
    assert not (tmp_path / "out.csv").exists()


def test_bad_rows_of_before_a_stop_are_counted_too(model_file, table, tmp_path):
    content = table.read_text().splitlines()
    content[3] = content[60] = "1,2,three,4"
    table.write_text("\n".join(content))
    with pytest.raises(KeyboardInterrupt):
        predict_file(model_file, table, tmp_path / "out.csv", chunk_size=20, on_rows=stop)
    assert predict_file(model_file, table, tmp_path / "out.csv", chunk_size=20).bad_rows == 2


def test_a_model_that_remembers_its_domain_says_how_unfamiliar_each_row_is(tmp_path, lines):
    torch.manual_seed(0)
    rows, labels = torch.randn(400, 4), torch.randint(3, (400,))
    model = etp(mlp(4, 3), 3).eval()
    remember(model, (rows[:200], labels[:200]), (rows[200:300], labels[200:300]))
    gate = Gate.fit(model, rows[300:], labels[300:], rule=Coverage(0.9), score="unfamiliarity", draws=3)
    save(model, tmp_path / "it.totalcal", gate=gate)
    usual = rows[300:][model.predict(rows[300:]).unfamiliarity.argsort()[50]]
    np.savez(tmp_path / "rows.npz", torch.stack([usual, usual + 50]).numpy())
    predict_file(tmp_path / "it.totalcal", tmp_path / "rows.npz", tmp_path / "out.csv")
    near, far = lines(tmp_path / "out.csv")
    assert float(far["unfamiliarity"]) > float(near["unfamiliarity"])
    assert 0 < float(far["familiarity"]) < float(near["familiarity"]) <= 1
    assert (near["decision"], far["decision"]) == ("accept", "too uncertain")


def test_rows_too_far_out_for_the_model_are_named_and_the_others_get_their_line(image_model, tmp_path, lines):
    pixels = np.random.default_rng(0).random((5, 1, 8, 8))
    np.savez(tmp_path / "good.npz", pixels[[0, 2, 4]])
    pixels[[1, 3]] = 1e300
    np.savez(tmp_path / "rows.npz", pixels)
    done = predict_file(image_model, tmp_path / "rows.npz", tmp_path / "out.csv")
    assert (done.rows, done.bad_rows) == (5, 2)
    predict_file(image_model, tmp_path / "good.npz", tmp_path / "good.csv")
    found, good = lines(tmp_path / "out.csv"), lines(tmp_path / "good.csv")
    assert [line["row"] for line in found] == ["row 0", "row 2", "row 4"]
    assert [line["entropy"] for line in found] == [line["entropy"] for line in good]
    first, second = (tmp_path / "out.csv.bad").read_text().splitlines()
    assert first.startswith("row 1,")
    assert second.startswith("row 3,")
    assert first == "row 1,has no answer: its numbers are too large for this model"


def test_all_kinds_of_tables_get_the_same_answers(model_file, table, iris, tmp_path, lines):
    iris[0].to_parquet(tmp_path / "iris.parquet")
    predict_file(model_file, table, tmp_path / "csv.csv")
    predict_file(model_file, tmp_path / "iris.parquet", tmp_path / "parquet.csv")
    assert (tmp_path / "csv.csv").read_bytes() == (tmp_path / "parquet.csv").read_bytes()
    predict_file(model_file, table, tmp_path / "out.parquet")
    answers = pq.read_table(tmp_path / "out.parquet").to_pandas()
    found = lines(tmp_path / "csv.csv")
    assert list(answers.columns) == list(found[0])
    assert list(answers["class"]) == [line["class"] for line in found]
    assert_allclose(answers["entropy"], [float(line["entropy"]) for line in found], rtol=1e-5)


def test_names_that_a_spreadsheet_would_run_are_harmless_in_the_table(image_model, tmp_path, lines):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("=cmd.png", "-2+3.png"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / name)
    (folder / "@bad.png").write_bytes(b"no image")
    saved = load(image_model)
    save(saved.process, tmp_path / "it.totalcal", classes=["+a", "-1"], preprocessing=saved.preprocessing)
    predict_file(tmp_path / "it.totalcal", folder, tmp_path / "out.csv")
    found = lines(tmp_path / "out.csv")
    assert [line["row"] for line in found] == ["'-2+3.png", "'=cmd.png"]
    assert {line["class"] for line in found} <= {"'+a", "-1"}
    assert (tmp_path / "out.csv.bad").read_text().startswith("'@bad.png,")


def test_two_runs_at_once_give_one_whole_table(model_file, table, tmp_path):
    program = (
        "import sys\nfrom pathlib import Path\nfrom totalcal.files.predicting.stream import predict_file\n"
        "predict_file(*map(Path, sys.argv[1:]), chunk_size=5)\n"
    )
    command = [sys.executable, "-c", program, model_file, table, tmp_path / "out.csv"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert "already exists" in "".join(errors) or "another process is writing" in "".join(errors)
    predict_file(model_file, table, tmp_path / "alone.csv", chunk_size=5)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_whole_numbers_that_a_net_does_not_take_stop_the_run_in_words(tmp_path):
    torch.manual_seed(0)
    save(etp(mlp(4, 3), num_classes=3), tmp_path / "model.totalcal")
    np.savez(tmp_path / "rows.npz", np.ones((5, 4), np.int64))
    with pytest.raises(InputError, match=r"torch\.int64"):
        predict_file(tmp_path / "model.totalcal", tmp_path / "rows.npz", tmp_path / "out.csv")
