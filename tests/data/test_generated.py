"""Letters and random tokens: drawn by seed, of the promised shape and range."""

import numpy as np
import pytest

from totalcal.data.synthetic import LETTERS, LOOK_LIKE_DIGITS, letters
from totalcal.data.text import random_tokens


def test_all_letters_are_drawn_or_look_like_digits():
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert sorted(LETTERS + LOOK_LIKE_DIGITS) == sorted(alphabet)


@pytest.mark.parametrize("size", [8, 28, 64])
def test_letters_fill_a_picture_of_any_size_with_ink(size):
    images, labels = letters(size=size, count=40, seed=1)
    assert images.shape == (40, size, size)
    assert (images.reshape(40, -1).max(1) > 100).all()
    assert (images.reshape(40, -1).min(1) == 0).all()
    assert labels.max() < len(LETTERS)


def test_letters_have_about_the_ink_of_digits():
    from totalcal.data import load

    assert letters(size=8, count=300).inputs.mean() == pytest.approx(load("digits")[0].mean(), rel=0.25)


def test_the_same_seed_draws_the_same_letters_and_another_others():
    first, again, other = (letters(size=8, count=20, seed=seed).inputs for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_one_letter_comes_in_many_faces():
    images, labels = letters(size=28, count=300)
    same = images[labels == labels[0]]
    assert len(np.unique(same.reshape(len(same), -1), axis=0)) == len(same)


def test_random_tokens_are_uniform_from_one_to_a_thousand():
    tokens = random_tokens(count=1000).inputs
    assert tokens.shape == (1000, 500)
    assert (tokens.min(), tokens.max()) == (1, 1000)
    counts = np.bincount(tokens.ravel(), minlength=1001)[1:]
    # chi-square of 999 degrees has mean 999 and deviation 45
    assert abs(((counts - 500) ** 2 / 500).sum() - 999) < 5 * 45


def test_random_tokens_follow_their_seed():
    np.testing.assert_array_equal(random_tokens(3, 4, seed=5).inputs, random_tokens(3, 4, seed=5).inputs)
