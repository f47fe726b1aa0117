import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from totalcal.errors import InputError, ShapeError
from totalcal.scores.streaming import labelled_blocks

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
    found = list(labelled_blocks(data, size))
    assert [len(rows) for rows, _ in found] == [size] * (10 // size) + ([10 % size] if 10 % size else [])
    assert torch.equal(torch.cat([rows for rows, _ in found]), INPUTS)
    assert torch.equal(torch.cat([truth for _, truth in found]), LABELS)


@pytest.mark.parametrize(
    "data", [INPUTS, INPUTS.numpy(), [INPUTS[:4], INPUTS[4:]]], ids=["tensor", "array", "list"]
)
def test_labels_may_be_missing(data):
    ((rows, truth),) = labelled_blocks(data, 100)
    assert torch.equal(rows, INPUTS)
    assert truth is None


MASK = torch.ones(10, 3)
PARTS = {
    "a tuple": (INPUTS, MASK),
    "a dataset": TensorDataset(INPUTS, MASK),
    "a loader of three": DataLoader(TensorDataset(INPUTS, MASK), batch_size=3),
}


@pytest.mark.parametrize("data", PARTS.values(), ids=PARTS)
def test_a_mask_is_no_label(data):
    found = list(labelled_blocks(data, 4, like=(INPUTS, MASK)))
    assert [truth for _, truth in found] == [None] * 3
    assert torch.equal(torch.cat([rows[0] for rows, _ in found]), INPUTS)
    assert torch.equal(torch.cat([rows[1] for rows, _ in found]), MASK)


@pytest.mark.parametrize(
    "data",
    [
        (INPUTS, MASK, LABELS),
        TensorDataset(INPUTS, MASK, LABELS),
        {"ids": INPUTS, "mask": MASK, "labels": LABELS},
        [
            {"ids": INPUTS[:7], "mask": MASK[:7], "label": LABELS[:7]},
            {"ids": INPUTS[7:], "mask": MASK[7:], "label": LABELS[7:]},
        ],
    ],
    ids=["tuple", "dataset", "mapping", "list of mappings"],
)
def test_inputs_of_several_parts_stay_together(data):
    found = list(labelled_blocks(data, 4))
    assert torch.equal(torch.cat([truth for _, truth in found]), LABELS)
    first, second = ("ids", "mask") if isinstance(found[0][0], dict) else (0, 1)
    assert torch.equal(torch.cat([rows[first] for rows, _ in found]), INPUTS)
    assert torch.equal(torch.cat([rows[second] for rows, _ in found]), MASK)


def test_parts_of_unequal_length_are_refused():
    with pytest.raises(ShapeError, match="10, 9"):
        list(labelled_blocks({"ids": INPUTS, "mask": MASK[:9]}, 4))


def test_a_list_of_two_batches_is_no_pair():
    assert sum(len(rows) for rows, _ in labelled_blocks([INPUTS[:5], INPUTS[5:]], 2)) == 10


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ShapeError, match="10 inputs, but 9 labels"):
        list(labelled_blocks((INPUTS, LABELS[:9]), 4))
    with pytest.raises(InputError, match="some batches have labels"):
        list(labelled_blocks([INPUTS[:5], (INPUTS[5:], LABELS[5:])], 10))
    with pytest.raises(InputError, match="not int"):
        list(labelled_blocks(3, 4))
    with pytest.raises(ShapeError, match="single number"):
        list(labelled_blocks(np.array(3.0), 4))


def test_batches_padded_to_lengths_of_their_own_stay_apart():
    batches = [(torch.ones(3, 5), torch.zeros(3)), (torch.ones(2, 7), torch.zeros(2))]
    assert [tuple(rows.shape) for rows, _ in labelled_blocks(batches, 4)] == [(3, 5), (2, 7)]
