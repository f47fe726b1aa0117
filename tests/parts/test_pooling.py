"""Pooling without indices: the same values as torch's, and nothing where gradients are wanted."""

import copy

import pytest
import torch
from torch import Tensor, nn

from totalcal import bnn, softmax
from totalcal.parts.pooling import QuickMaxPool2d, with_quick_pooling

from ..nets import lenet5


def pictures(*shape: int, layout: torch.memory_format = torch.contiguous_format) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    values[0, 0, 0, 0] = torch.nan
    return values.to(memory_format=layout)


def quick(pooling: nn.Module) -> nn.Module:
    return with_quick_pooling(copy.deepcopy(pooling))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["default", "last"])
@pytest.mark.parametrize(
    ("pooling", "is_quick"),
    [
        (nn.MaxPool2d(2), True),
        (nn.MaxPool2d(3), True),
        (nn.MaxPool2d((2, 3)), True),
        (nn.MaxPool2d(2, 2), True),
        (nn.MaxPool2d(1), True),
        (nn.MaxPool2d(3, stride=2, padding=1), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, return_indices=True), False),
    ],
    ids=str,
)
@torch.no_grad()
def test_values_and_layout_are_those_of_torch(
    pooling: nn.Module, is_quick: bool, layout: torch.memory_format
) -> None:
    rows = pictures(42, 4, 9, 11, layout=layout)
    found, expected = (
        given[0] if isinstance(given, tuple) else given for given in (quick(pooling)(rows), pooling(rows))
    )
    assert isinstance(quick(pooling), QuickMaxPool2d) is is_quick
    assert torch.equal(found.nan_to_num(1e9), expected.nan_to_num(1e9))
    assert found.is_contiguous(memory_format=layout)


@torch.no_grad()
def test_a_window_larger_than_the_picture_is_refused_as_ever() -> None:
    with pytest.raises(RuntimeError, match="too small"):
        quick(nn.MaxPool2d(3))(torch.zeros(1, 1, 2, 2))


@torch.no_grad()
def test_pictures_without_a_batch_are_pooled_too() -> None:
    rows = pictures(1, 2, 4, 4)[0]
    expected = nn.MaxPool2d(2)(rows).nan_to_num(9)
    assert torch.equal(quick(nn.MaxPool2d(2))(rows).nan_to_num(9), expected)


def test_gradients_are_those_of_torch() -> None:
    rows = torch.zeros(1, 1, 2, 2, requires_grad=True)  # a tie: torch gives all to the first
    quick(nn.MaxPool2d(2))(rows).sum().backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad.flatten(), torch.tensor([1.0, 0.0, 0.0, 0.0]))


def test_predictions_pool_in_the_shorter_way(monkeypatch: pytest.MonkeyPatch) -> None:
    net, rows = lenet5(10), pictures(128, 1, 28, 28).nan_to_num()
    model = softmax(net, 10).eval()
    expected = net(rows).softmax(-1)
    assert str(model.backbone) == str(net)
    monkeypatch.setattr(torch, "max_pool2d", lambda *_: pytest.fail("the longer way was taken"))
    torch.testing.assert_close(model.predict(rows).probabilities.float(), expected)


def test_a_model_whose_pooling_stands_behind_random_layers_predicts_by_moments():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)]
    model = bnn(nn.Sequential(*layers), 3, layers="all")
    inputs = torch.randn(20, 1, 8, 8)
    truth, found = (model.predict(inputs, draws=draws).probabilities for draws in (2_000, "moments"))
    torch.testing.assert_close(found, truth, atol=0.02, rtol=0)
