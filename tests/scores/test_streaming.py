import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils.data import DataLoader, TensorDataset

from totalcal import scores
from totalcal.errors import InputError, ShapeError
from totalcal.scores.streaming import labelled_blocks


def run(probabilities, labels, size):
    running = scores.RunningScores()
    for start in range(0, len(labels), size):
        running.update(probabilities[start : start + size], labels[start : start + size])
    return running


@pytest.mark.parametrize("size", [1, 8, 32, 128, 500])
def test_any_batch_size_gives_the_score_of_the_whole(predictions, size):
    probabilities, labels = predictions()
    running = run(probabilities, labels, size)
    whole = [score(probabilities, labels) for score in (scores.error, scores.nll, scores.brier)]
    assert_allclose([running.error, running.nll, running.brier], whole, rtol=1e-12)
    assert_allclose(running.ece.value, scores.ece(probabilities, labels).value, rtol=1e-12)
    assert running.ece.counts == scores.ece(probabilities, labels).counts


def test_two_workers_merge_into_one(predictions):
    probabilities, labels = predictions()
    left, right = run(probabilities[:123], labels[:123], 50), run(probabilities[123:], labels[123:], 7)
    left.merge(right)
    assert left.examples == 500
    assert_allclose(left.nll, scores.nll(probabilities, labels), rtol=1e-12)
    assert_allclose(left.reliability.accuracy, scores.reliability(probabilities, labels).accuracy)


def test_scores_of_other_bins_do_not_merge():
    with pytest.raises(InputError, match=r"15 bins.*10"):
        scores.RunningScores(15).merge(scores.RunningScores(10))


@pytest.mark.parametrize("name", ["error", "nll", "brier", "ece", "reliability"])
def test_nothing_seen_is_no_score(name):
    with pytest.raises(InputError, match="no predictions"):
        getattr(scores.RunningScores(), name)


def test_memory_does_not_grow_with_the_examples(predictions):
    import pickle

    probabilities, labels = predictions()
    few, many = scores.RunningScores(), scores.RunningScores()
    few.update(probabilities, labels)
    for _ in range(100):
        many.update(probabilities, labels)
    assert len(pickle.dumps(many)) <= len(pickle.dumps(few)) + 16
    assert np.isclose(many.ece.value, few.ece.value)


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
