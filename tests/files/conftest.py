import pytest
import torch

from totalcal import Batch
from totalcal.files.recipe import Recipe


@pytest.fixture
def recipe():
    return Recipe("etp", 3, {"num_cells": 5}, "mlp", {"num_inputs": 4, "hidden": [8]})


@pytest.fixture
def rows():
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def context(rows):
    return Batch(rows.flip(0), torch.tensor([0, 1, 2, 0, 1, 2]))
