"""Rows of any kind of inputs: what is done to a tensor is done to every tensor of a mapping or tuple."""

from collections import UserDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from totalcal import inputs as kinds
from totalcal.errors import InputError, ShapeError

Picture = namedtuple("Picture", ["image", "metadata"])


def every_kind(rows: int = 6):
    ids, mask = torch.arange(rows * 3).reshape(rows, 3), torch.ones(rows, 3)
    return [ids, {"input_ids": ids, "attention_mask": mask}, (ids, mask), Picture(ids, mask)]


def same(one, other):
    assert type(one) is type(other)
    assert all(torch.equal(a, b) for a, b in zip(kinds.tensors(one), kinds.tensors(other), strict=True))


@given(st.integers(0, 3), st.integers(1, 9))
def test_blocks_joined_again_are_the_inputs(kind, size):
    inputs = every_kind()[kind]
    blocks = list(kinds.blocks(inputs, size))
    assert [kinds.count(block) for block in blocks] == [min(size, 6 - start) for start in range(0, 6, size)]
    same(kinds.joined(blocks), inputs)


@pytest.mark.parametrize("kind", range(4))
def test_rows_are_taken_from_every_tensor(kind):
    inputs = every_kind()[kind]
    for tensor, whole in zip(
        kinds.tensors(kinds.taken(inputs, torch.tensor([4, 1]))), kinds.tensors(inputs), strict=True
    ):
        assert torch.equal(tensor, whole[[4, 1]])


def test_arrays_and_tokenizers_outputs_become_tensors():
    encoding = UserDict(input_ids=[[1, 2], [3, 4]], attention_mask=np.ones((2, 2)))  # what BatchEncoding is
    inputs = kinds.as_inputs(encoding)
    assert inputs["input_ids"].dtype == torch.int64
    assert kinds.count(inputs) == 2
    assert kinds.as_inputs([[1.0, 2.0], [3.0, 4.0]]).shape == (2, 2)


def test_the_fields_of_a_structured_array_are_a_mapping_or_a_tuple():
    form = [("ids", np.int64, 3), ("weight", np.float32)]  # 28 bytes: no field alone can be seen by torch
    rows = np.array([((1, 2, 3), 0.5), ((4, 5, 6), 0.25)], form)
    same(
        kinds.as_inputs(rows),
        {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "weight": torch.tensor([0.5, 0.25])},
    )
    same(kinds.as_inputs(rows[:1]), {"ids": torch.tensor([[1, 2, 3]]), "weight": torch.tensor([0.5])})
    numbered = kinds.as_inputs(rows.astype([("0", np.int64, 3), ("1", np.float32)]))
    same(numbered, (torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0.5, 0.25])))


class Tagger(nn.Module):
    def forward(self, input_ids, attention_mask):
        return (input_ids * attention_mask).float()


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ({"input_ids": torch.ones(2, 3)}, "but got input_ids"),
        ({"ids": torch.ones(2, 3), "mask": torch.ones(2, 3)}, "but got ids, mask"),
        (torch.ones(2, 3), "but got one tensor"),
        ((torch.ones(2, 3),) * 3, "but got 3 tensors"),
    ],
)
def test_inputs_that_are_not_the_arguments_of_a_net_are_named(inputs, given):
    with pytest.raises(InputError, match=f"the net takes input_ids, attention_mask, {given}"):
        kinds.call(Tagger(), inputs)


def test_a_net_that_fails_by_itself_says_so_in_its_own_words():
    class Broken(nn.Module):
        def forward(self, inputs):
            return inputs + None

    with pytest.raises(TypeError, match="unsupported operand"):
        kinds.call(Broken(), torch.ones(2, 3))


def test_labels_in_a_mapping_are_not_handed_to_a_net():
    ids = torch.ones(2, 3)
    same(kinds.checked_inputs({"ids": ids, "labels": torch.zeros(2)}), {"ids": ids})
    same(kinds.checked_inputs({"label": ids}), {"label": ids})


def test_labels_are_found_by_the_conventions_of_the_field():
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    for batch in [(x, y), [x, y], {"x": x, "labels": y}, {"x": x, "label": y}, ((x, x), y), ({"x": x}, y)]:
        assert torch.equal(kinds.labelled(batch).labels, y)
    for batch in [x, (x,), [x], {"x": x}]:
        assert kinds.labelled(batch).labels is None


def test_a_mask_is_not_taken_for_labels_where_the_kind_is_known():
    pair = torch.zeros(2, 3), torch.ones(2, 3)
    assert kinds.labelled(pair, like=pair).labels is None
    assert kinds.labelled((pair, torch.tensor([0, 1])), like=pair).labels is not None
    assert kinds.labelled((pair[0], torch.tensor([0, 1])), like=pair[0]).labels is not None


def test_a_mask_is_not_taken_for_labels_where_the_inputs_are_known_to_be_a_mapping():
    ids, mask, labels = torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([0, 1])
    known = {"input_ids": ids, "attention_mask": mask}
    for batch in [(ids, mask), [ids, mask], Picture(ids, mask)]:
        found = kinds.labelled(batch, like=known)
        assert found.labels is None
        assert kinds.count(found.inputs) == 2
        assert len(list(kinds.tensors(found.inputs))) == 2
    assert kinds.labelled((known, labels), like=known).labels is labels


def test_three_tensors_are_two_inputs_and_labels():
    ids, mask, labels = torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([0, 1])
    for like in (None, (ids, mask), {"input_ids": ids, "attention_mask": mask}):
        found = kinds.labelled((ids, mask, labels), like)
        assert isinstance(found.inputs, tuple)
        assert found.labels is labels


def test_a_pair_within_a_pair_is_inputs_as_a_loader_collates_it():
    image, metadata, labels = torch.zeros(2, 1, 4, 4), torch.ones(2, 3), torch.tensor([0, 1])
    for like in (None, (image, metadata)):
        found = kinds.labelled([[image, metadata], labels], like)
        assert isinstance(found.inputs, tuple)
        assert found.labels is labels
    with pytest.raises(InputError, match="tuple"):
        kinds.as_inputs([image, metadata])


def test_modules_are_called_as_pytorch_calls_them():
    class Masked(nn.Module):
        def forward(self, input_ids, attention_mask):
            return SimpleNamespace(logits=(input_ids * attention_mask).float())

    ids, mask = torch.ones(2, 3), torch.tensor([[1.0, 0, 0], [1, 1, 0]])
    expected = ids * mask
    assert torch.equal(kinds.call(Masked(), {"input_ids": ids, "attention_mask": mask}), expected)
    assert torch.equal(kinds.call(Masked(), (ids, mask)), expected)
    assert torch.equal(kinds.call(nn.Identity(), ids), ids)


def test_an_output_without_logits_is_refused_with_what_to_do():
    with pytest.raises(ShapeError, match="logits"):
        kinds.logits({"hidden_states": torch.zeros(2, 3)})


def test_uneven_rows_and_empty_inputs_are_refused():
    with pytest.raises(ShapeError, match="2, 3"):
        kinds.as_inputs((torch.zeros(2, 1), torch.zeros(3, 1)))
    with pytest.raises(InputError, match="at least one"):
        kinds.as_inputs({})
    with pytest.raises(InputError, match="array"):
        kinds.as_inputs({"text": ["a", "b"]})


def test_broken_rows_are_found_in_any_tensor():
    good, bad = torch.zeros(3, 2), torch.tensor([[0.0, 0], [0, torch.nan], [torch.inf, 0]])
    assert kinds.broken_rows({"a": good, "b": bad}).tolist() == [1, 2]
    assert kinds.broken_rows(torch.full((2, 2), 3e38)).tolist() == []
    assert kinds.broken_rows(torch.zeros(2, 2, dtype=torch.int64)).tolist() == []


def test_batches_padded_to_other_lengths_are_not_joined():
    assert kinds.can_be_joined((torch.zeros(2, 3),), (torch.zeros(5, 3),))
    assert not kinds.can_be_joined((torch.zeros(2, 3),), (torch.zeros(2, 4),))
