from hashlib import sha256

import numpy as np
import pytest
import torch
from skimage import data


@pytest.fixture(scope="session")
def patches():
    """198 pieces of three photographs, 32 × 32, that the reference numbers were measured on."""
    pieces = [
        photograph[row : row + 32, column : column + 32]
        for photograph in (data.astronaut(), data.chelsea(), data.coffee())
        for row in range(0, photograph.shape[0] - 31, 56)
        for column in range(0, photograph.shape[1] - 31, 56)
    ]
    stack = np.stack(pieces)
    digest = "1631b69081ec0e61d41f0ffad7cfd77fefb15c39447a14af8111e79a18ece7ef"
    assert sha256(stack.tobytes()).hexdigest() == digest
    stack.flags.writeable = False
    return stack


@pytest.fixture(scope="session")
def few(patches):
    """Every eighth patch, as a tensor."""
    return torch.from_numpy(patches[::8].copy())
