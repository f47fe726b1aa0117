import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from totalcal.data.text import encode, shorten, shuffle_words, vocabulary, words_of


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
