import numpy as np
import pytest

from totalcal.data import text as module
from totalcal.data.text import read_imdb, read_reviews
from totalcal.errors import DataError


def write(folder, split, label, reviews):
    target = folder / "aclImdb" / split / label
    target.mkdir(parents=True)
    for name, text in reviews.items():
        (target / name).write_text(text, encoding="utf-8")


@pytest.fixture
def reviews(tmp_path):
    write(
        tmp_path, "train", "neg", {"0_1.txt": "awful awful plot", "10_2.txt": "dull", "2_3.txt": "naïve plot"}
    )
    write(tmp_path, "train", "pos", {"0_9.txt": "splendid"})
    write(tmp_path, "test", "neg", {"0.txt": "awful unheard"})
    write(tmp_path, "test", "pos", {"0.txt": "splendid plot"})
    return tmp_path


def test_reviews_come_by_number_with_the_negative_ones_first(reviews):
    texts, labels = read_reviews(reviews, "train")
    assert texts == ["awful awful plot", "naïve plot", "dull", "splendid"]
    assert labels == [0, 0, 0, 1]


def test_the_words_of_the_test_reviews_are_numbered_as_in_training(reviews):
    arrays = read_imdb(reviews, "test")
    assert arrays.inputs.shape == (2, 500)
    assert arrays.inputs.dtype == np.int64
    # awful and plot stand twice each in training, so they are 1 and 2; then dull, na, splendid, ve
    assert [row[row > 0].tolist() for row in arrays.inputs] == [[1], [5, 2]]
    assert arrays.labels.tolist() == [0, 1]


def test_a_class_without_reviews_is_refused(reviews):
    (reviews / "aclImdb/train/pos/0_9.txt").unlink()
    with pytest.raises(DataError, match="holds no reviews"):
        read_imdb(reviews, "train")


def test_a_file_name_without_a_number_is_refused(reviews):
    (reviews / "aclImdb/train/pos/notes.txt").write_text("")
    with pytest.raises(DataError, match="begins with its number"):
        read_imdb(reviews, "train")


def test_a_review_as_long_as_a_library_is_refused(reviews, monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 8)
    with pytest.raises(DataError, match="more than 8 bytes"):
        read_imdb(reviews, "train")
