"""Random predictions as people have them: float32, ties, constants, one class, extreme probabilities."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

Predictions = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


@pytest.fixture
def predictions() -> Callable[..., Predictions]:
    def draw(examples: int = 500, classes: int = 5, sharpness: float = 2.0, seed: int = 0) -> Predictions:
        random = np.random.default_rng(seed)
        logits = sharpness * random.normal(size=(examples, classes))
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return probabilities.astype(np.float32), random.integers(classes, size=examples)

    return draw
