import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from totalcal.data import from_arrays, from_dataset, from_image_folder, from_npz, from_table
from totalcal.errors import DataError, InputError


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


def test_a_test_folder_follows_the_classes_and_the_scaling_of_training(folder):
    train = from_image_folder(folder, size=(4, 4))
    for file in (folder / "ant").iterdir():
        file.unlink()
    test = from_image_folder(folder, size=(4, 4), like=train)
    assert test.data.labels.tolist() == [1, 1]
    assert test.data.scaling == train.data.scaling


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no pictures"):
        from_image_folder(tmp_path, size=(4, 4))


def test_a_broken_picture_is_named(folder):
    (folder / "ant" / "0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"0\.png is no readable picture"):
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
