import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from totalcal.errors import DataError
from totalcal_lab.data import text as module
from totalcal_lab.data.text import (
    encode,
    read_imdb,
    read_reviews,
    shorten,
    shuffle_words,
    vocabulary,
    words_of,
)


def left_padded(lengths, width):
    rows = np.zeros((len(lengths), width), np.int64)
    for row, length in zip(rows, lengths, strict=True):
        row[width - length :] = np.arange(1, length + 1)
    return rows


def test_mark_up_punctuation_case_and_stop_words_do_not_count():
    text = "The PLOT,<br /><br>it's weak--really...weak (2/10)"
    assert words_of(text) == ["plot", "weak", "really", "weak", "2", "10"]


def test_apostrophes_join_what_they_part():
    assert words_of("Hitchcock's") == ["hitchcocks"]


def test_the_vocabulary_holds_the_commonest_words():
    words = vocabulary(["plot plot plot actor actor scene"], size=2)
    assert words == {"plot": 1, "actor": 2}


def test_unknown_words_are_left_out_and_long_texts_lose_their_end():
    words = {"plot": 1, "actor": 2}
    assert encode(["scene plot actor plot"], words, length=2).tolist() == [[1, 2]]
    assert encode([""], words, length=2).tolist() == [[0, 0]]


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.integers(0, 12), min_size=1, max_size=6), length=st.integers(1, 15))
def test_shortening_is_encoding_with_a_smaller_length(lengths, length):
    words = {f"w{index}": index for index in range(1, 13)}
    texts = [" ".join(f"w{index}" for index in range(1, count + 1)) for count in lengths]
    expected = encode(texts, words, length=min(length, 12))
    np.testing.assert_array_equal(shorten(left_padded(lengths, 12), length), expected)


@settings(deadline=None, max_examples=30)
@given(tokens=arrays(np.int64, (4, 7), elements=st.integers(1, 1000)), padding=st.integers(0, 7))
def test_shuffled_texts_have_the_same_words_and_the_same_padding(tokens, padding):
    tokens[:, :padding] = 0
    shuffled = shuffle_words(tokens, seed=1)
    np.testing.assert_array_equal(np.sort(shuffled, 1), np.sort(tokens, 1))
    np.testing.assert_array_equal(shuffled == 0, tokens == 0)


def test_the_order_of_words_changes_with_the_seed_alone():
    tokens = left_padded([50], 50)
    assert (shuffle_words(tokens, 0) == shuffle_words(tokens, 0)).all()
    assert (shuffle_words(tokens, 0) != shuffle_words(tokens, 1)).any()
    assert (shuffle_words(tokens, 0) != tokens).any()


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
