"""IMDB's out-of-domain set in the paper: tokens uniform in [1, 1000] (appendix B.3)."""

import numpy as np

from totalcal.data.arrays import Arrays
from totalcal.data.text import LENGTH, NUM_WORDS


def random_tokens(count: int = 25_000, length: int = LENGTH, seed: int = 0) -> Arrays:
    """Full texts of random words; the label is 0, for want of any.

    >>> random_tokens(count=2, length=3).inputs.shape
    (2, 3)
    """
    draw = np.random.default_rng(seed)
    return Arrays(draw.integers(1, NUM_WORDS + 1, size=(count, length)), np.zeros(count, dtype=np.int64))
