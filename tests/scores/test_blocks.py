import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from totalcal.errors import InputError, ShapeError
from totalcal.scores.blocks import blocks

INPUTS, LABELS = torch.arange(20.0).reshape(10, 2), torch.arange(10)
PAIRS = {
    "a tuple": (INPUTS, LABELS),
    "a tuple of arrays": (INPUTS.numpy(), LABELS.numpy()),
    "a dataset": TensorDataset(INPUTS, LABELS),
    "a loader of three": DataLoader(TensorDataset(INPUTS, LABELS), batch_size=3),
    "a list of uneven batches": [
        (INPUTS[:1], LABELS[:1]),
        (INPUTS[1:8], LABELS[1:8]),
        (INPUTS[8:], LABELS[8:]),
    ],
}


@pytest.mark.parametrize("data", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("size", [1, 3, 4, 10, 99])
def test_every_way_to_give_a_set_makes_the_same_blocks(data, size):
    found = list(blocks(data, size))
    assert [len(rows) for rows, _ in found] == [size] * (10 // size) + ([10 % size] if 10 % size else [])
    assert torch.equal(torch.cat([rows for rows, _ in found]), INPUTS)
    assert torch.equal(torch.cat([truth for _, truth in found]), LABELS)


@pytest.mark.parametrize(
    "data", [INPUTS, INPUTS.numpy(), [INPUTS[:4], INPUTS[4:]]], ids=["tensor", "array", "list"]
)
def test_labels_may_be_missing(data):
    ((rows, truth),) = blocks(data, 100)
    assert torch.equal(rows, INPUTS)
    assert truth is None


def test_a_list_of_two_batches_is_no_pair():
    assert sum(len(rows) for rows, _ in blocks([INPUTS[:5], INPUTS[5:]], 2)) == 10


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ShapeError, match="10 inputs, but 9 labels"):
        list(blocks((INPUTS, LABELS[:9]), 4))
    with pytest.raises(InputError, match="some batches have labels"):
        list(blocks([INPUTS[:5], (INPUTS[5:], LABELS[5:])], 10))
    with pytest.raises(InputError, match="not int"):
        list(blocks(3, 4))
    with pytest.raises(ShapeError, match="single number"):
        list(blocks(np.array(3.0), 4))
