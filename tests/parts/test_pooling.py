"""Pooling without indices: the same values as torch's, and nothing where gradients are wanted."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from totalcal import softmax
from totalcal.parts.pooling import quick_pooling

from ..nets import lenet5


def pictures(*shape: int, layout: torch.memory_format = torch.contiguous_format) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    values[0, 0, 0, 0] = torch.nan
    return values.to(memory_format=layout)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["default", "last"])
@pytest.mark.parametrize(
    "pooling",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3),
        nn.MaxPool2d((2, 3)),
        nn.MaxPool2d((2,)),
        nn.MaxPool2d(2, 2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(1),
    ],
    ids=str,
)
@torch.no_grad()
def test_values_and_layout_are_those_of_torch(pooling: nn.Module, layout: torch.memory_format) -> None:
    rows = pictures(3, 4, 9, 11, layout=layout)
    with quick_pooling():
        found = pooling(rows)
    expected = pooling(rows)
    assert torch.equal(found.nan_to_num(1e9), expected.nan_to_num(1e9))
    assert found.is_contiguous(memory_format=layout)


@torch.no_grad()
def test_indices_are_given_where_they_are_asked_for() -> None:
    rows = pictures(1, 1, 4, 4)
    with quick_pooling():
        values, places = F.max_pool2d(rows, 2, return_indices=True)
    assert torch.equal(rows.flatten(1)[0, places.flatten()].nan_to_num(9), values.flatten().nan_to_num(9))


@torch.no_grad()
def test_a_window_larger_than_the_picture_is_refused_as_ever() -> None:
    with quick_pooling(), pytest.raises(RuntimeError, match="too small"):
        F.max_pool2d(torch.zeros(1, 1, 2, 2), 3)


@torch.no_grad()
def test_pictures_without_a_batch_are_pooled_too() -> None:
    rows = pictures(1, 2, 4, 4)[0]
    with quick_pooling():
        found = F.max_pool2d(rows, 2)
    assert torch.equal(found.nan_to_num(9), F.max_pool2d(rows, 2).nan_to_num(9))


def test_gradients_are_those_of_torch() -> None:
    rows = torch.zeros(1, 1, 2, 2, requires_grad=True)  # a tie: torch gives all to the first
    with quick_pooling():
        F.max_pool2d(rows, 2).sum().backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad.flatten(), torch.tensor([1.0, 0.0, 0.0, 0.0]))


def test_predictions_pool_in_the_shorter_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = softmax(lenet5(10), 10).eval(), pictures(2, 1, 28, 28).nan_to_num()
    expected = model.backbone(rows).softmax(-1)
    monkeypatch.setattr(torch, "max_pool2d", lambda *_: pytest.fail("the longer way was taken"))
    torch.testing.assert_close(model.predict(rows).probabilities.float(), expected)
