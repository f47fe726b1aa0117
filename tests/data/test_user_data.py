import shutil
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import feather
from torch.nn import Flatten, Linear, Sequential
from torch.utils.data import DataLoader, TensorDataset

import totalcal
from totalcal.data import from_arrays, from_dataset, from_image_folder, from_npz, from_table
from totalcal.decisions import Coverage, Gate
from totalcal.errors import DataError, InputError, LabelError, ShapeError


@pytest.fixture
def folder(tmp_path):
    for name, colour in (("cat", (255, 0, 0)), ("ant", (0, 0, 255))):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for index in range(2):
            Image.new("RGB", (10 + index, 12), colour).save(tmp_path / "pictures" / name / f"{index}.png")
    (tmp_path / "pictures" / "cat" / "notes.txt").write_text("not a picture")
    return tmp_path / "pictures"


def test_an_image_folder_gives_pictures_of_one_size_and_its_classes(folder):
    pictures = from_image_folder(folder, size=(6, 5))
    assert pictures.classes == ("ant", "cat")
    assert pictures.data.labels.tolist() == [0, 0, 1, 1]
    assert pictures.data.inputs.shape == (4, 6, 5, 3)
    assert pictures.data.inputs[0, 0, 0].tolist() == [0, 0, 255]


def test_pictures_deeper_in_the_folder_of_a_class_are_its_pictures(folder):
    (folder / "ant" / "2024" / ".ipynb_checkpoints").mkdir(parents=True)
    for place in ("2024", "2024/.ipynb_checkpoints"):
        Image.new("RGB", (4, 4)).save(folder / "ant" / place / "9.png")
    assert from_image_folder(folder, size=(4, 4)).data.labels.tolist() == [0, 0, 0, 1, 1]


def test_a_folder_without_pictures_is_no_class(folder):
    (folder / "bee").mkdir()
    (folder / "bee" / "notes.txt").write_text("no bees yet")
    with pytest.raises(DataError, match=r"bee holds no pictures.*strict=False"):
        from_image_folder(folder, size=(4, 4))
    found = from_image_folder(folder, size=(4, 4), strict=False)
    assert found.classes == ("ant", "cat")
    assert "bee" in found.skipped[0]


def test_a_test_folder_follows_the_classes_and_the_scaling_of_training(folder):
    train = from_image_folder(folder, size=(4, 4))
    for file in (folder / "ant").iterdir():
        file.unlink()
    test = from_image_folder(folder, size=(4, 4), like=train)
    assert test.data.labels.tolist() == [1, 1]
    assert test.data.scaling == train.data.scaling


def test_a_test_folder_is_treated_as_training_was_and_has_its_numbers(folder):
    train = from_image_folder(folder, size=(4, 6), colour=False, crop=True)
    shutil.rmtree(folder / "ant")
    shutil.copytree(folder / "cat", folder / "bee")
    test = from_image_folder(folder, size=(4, 6), like=train)
    assert (test.steps, test.classes) == (train.steps, ("ant", "cat"))
    assert test.data.labels.tolist() == [-1, -1, 1, 1]  # bees are of no class
    with pytest.raises(ShapeError, match=r"pictures of \(4, 6\), but size is \(8, 8\)"):
        from_image_folder(folder, size=(8, 8), like=train)


def test_fit_remember_evaluate_and_gates_take_what_loaders_give(folder, draw):
    pictures = from_image_folder(folder, size=(4, 4))
    table = from_arrays(draw.normal(size=(200, 4)), draw.integers(2, size=200))
    for data, net in ((pictures, Sequential(Flatten(), Linear(48, 2))), (table, Linear(4, 2))):
        model = totalcal.softmax(net, num_classes=2)
        totalcal.fit(model, data, epochs=1, batch_size=2, progress=False)
        verdict = totalcal.evaluate(model, data, {"the same": data}, batch_size=3)
        whole = data.data if data is pictures else data
        assert verdict.examples == len(data)
        assert verdict.nll == pytest.approx(totalcal.evaluate(model, tuple(whole.whole())).nll)
    totalcal.remember(model, table, table, progress=False)
    assert Gate.fit(model, table, rule=Coverage(0.9)).cost.rows == 200


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no pictures"):
        from_image_folder(tmp_path, size=(4, 4))


def test_a_broken_picture_is_named(folder):
    (folder / "ant" / "0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"0\.png cannot be read as a picture"):
        from_image_folder(folder, size=(4, 4))


def test_an_npz_is_read_by_the_names_of_its_arrays(tmp_path, draw):
    images = draw.integers(0, 256, (4, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", pictures=images, classes=np.arange(4))
    data = from_npz(tmp_path / "own.npz", "pictures", "classes")
    assert data.whole().inputs.shape == (4, 1, 8, 8)
    assert data.whole().inputs.mean() == pytest.approx(0, abs=1e-5)
    with pytest.raises(DataError, match="has pictures, classes"):
        from_npz(tmp_path / "own.npz")


def test_a_table_has_its_classes_numbered_and_its_columns_scaled():
    frame = pd.DataFrame({"width": [1.0, 3.0], "kind": ["wolf", "dog"], "count": [10, 30]})
    data = from_table(frame, label="kind")
    assert data.labels.tolist() == [1, 0]
    assert data.whole().inputs.tolist() == [[-1, -1], [1, 1]]
    with pytest.raises(DataError, match="no column 'sort'"):
        from_table(frame, label="sort")


def test_a_data_set_and_a_loader_of_it_give_the_same(draw):
    dataset = TensorDataset(torch.randn(5, 3, 4, 4), torch.arange(5))
    for given in (dataset, DataLoader(dataset, batch_size=2)):
        data = from_dataset(given)
        torch.testing.assert_close(data.whole().inputs, dataset.tensors[0])
        assert data.labels.tolist() == [0, 1, 2, 3, 4]


def test_arrays_keep_their_meaning_by_type():
    assert from_arrays(np.zeros((2, 3), np.int32), np.zeros(2)).whole().inputs.dtype == torch.int64
    assert from_arrays(np.zeros((2, 3), np.float64), np.zeros(2)).whole().inputs.dtype == torch.float32
    with pytest.raises(InputError, match="not finite"):
        from_arrays(np.array([[np.nan]]), np.zeros(1))
    with pytest.raises(InputError, match="empty"):
        from_dataset([])


@pytest.mark.parametrize(
    "inputs",
    [
        np.array([["a"], ["b"]]),
        np.array([[1j], [2j]]),
        np.zeros((2, 0)),
        np.zeros((0, 3)),
        np.zeros(2),
        np.zeros((2, 1, 1, 1, 1)),
        np.array([[1e300], [0.0]]),
        np.array([[np.nan], [0.0]]),
    ],
    ids=str,
)
def test_inputs_that_no_net_can_take_are_refused(inputs):
    with pytest.raises(InputError):
        from_arrays(inputs, np.zeros(len(inputs), int))


@pytest.mark.parametrize("labels", [[0.5, 1.0], [np.nan, 1.0], ["a", "b"], [[0], [1]], [0, 2**63]], ids=str)
def test_labels_that_are_no_whole_numbers_are_refused(labels):
    with pytest.raises(LabelError):
        from_arrays(np.zeros((2, 3)), np.array(labels))


def test_a_table_says_which_rows_have_no_class_and_what_is_no_number():
    with pytest.raises(LabelError, match="1 rows have no kind"):
        from_table(pd.DataFrame({"width": [1.0, 2.0], "kind": ["wolf", None]}), "kind")
    with pytest.raises(DataError, match="numbers"):
        from_table(pd.DataFrame({"width": ["wide", "thin"], "kind": ["wolf", "dog"]}), "kind")
    with pytest.raises(DataError, match="Give `classes`"):
        from_table(pd.DataFrame({"width": [1, 2], "kind": ["wolf", 3]}), "kind")
    with pytest.raises(DataError, match="several columns"):
        from_table(pd.DataFrame([[1, 2, 3]], columns=["width", "kind", "kind"]), "kind")


def test_a_test_table_that_lacks_a_class_follows_the_classes_given():
    frame = pd.DataFrame({"width": [1.0, 3.0], "kind": ["wolf", "dog"]})
    assert from_table(frame, "kind", classes=["cat", "dog", "wolf"]).labels.tolist() == [2, 1]
    with pytest.raises(LabelError, match="'wolf' is not one of the classes"):
        from_table(frame, "kind", classes=["cat", "dog"])


@pytest.mark.parametrize("name", ["gone", "file"])
def test_what_is_no_folder_of_pictures_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=name):
        from_image_folder(tmp_path / name, size=(8, 8))


def test_a_data_set_of_no_pairs_is_refused():
    with pytest.raises(DataError, match="pairs"):
        from_dataset([1, 2, 3])
    with pytest.raises(DataError, match="pairs"):
        from_dataset([(np.zeros(2), 0), (np.zeros(3), 1)])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
def test_a_table_may_be_given_as_a_file(tmp_path, suffix):
    frame = pd.DataFrame({"width": [1.0, 3.0], "kind": ["wolf", "dog"]})
    path = tmp_path / f"it.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else getattr(frame, f"to_{suffix}")(path)
    found, expected = from_table(path, "kind"), from_table(frame, "kind")
    assert torch.equal(found.inputs, expected.inputs)
    assert torch.equal(found.labels, expected.labels)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=path.name):
        from_table(str(path), "kind")


def test_words_that_end_beyond_a_feather_file_are_refused(tmp_path):
    """They are a segfault of pyarrow, if nobody asks whether they are there."""
    path = tmp_path / "it.feather"
    words = pa.array(["wolf", "dog"], pa.string())
    feather.write_feather(pa.table({"width": [1.0, 3.0], "kind": words}), path, compression="uncompressed")
    data, places = path.read_bytes(), struct.pack("<3i", 0, 4, 7)
    assert data.count(places) == 1
    path.write_bytes(data.replace(places, struct.pack("<3i", 0, 4, 1 << 30)))
    with pytest.raises(DataError, match=r"it\.feather"):
        from_table(path, "kind")
