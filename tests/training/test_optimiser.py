"""Optimisers and schedules."""

import math

import pytest
import torch
from torch import nn

from totalcal import bnn, fit, softmax
from totalcal.errors import UnknownNameError
from totalcal.training.optimiser import build_optimizer
from totalcal.training.options import Optimisation


def test_the_cosine_moves_once_an_epoch(quadrants: tuple[torch.Tensor, torch.Tensor]) -> None:
    history = fit(softmax(nn.Linear(2, 3), 3), quadrants, epochs=5, batch_size=16)
    rates = [report.learning_rate for report in history.epochs]
    assert rates == pytest.approx([0.5e-3 * (1 + math.cos(math.pi * epoch / 5)) for epoch in range(5)])


def test_a_constant_schedule_does_not_move(quadrants: tuple[torch.Tensor, torch.Tensor]) -> None:
    constant = Optimisation("sgd", 0.1, schedule="constant")
    history = fit(softmax(nn.Linear(2, 3), 3), quadrants, epochs=3, optimisation=constant)
    assert {report.learning_rate for report in history.epochs} == {0.1}


def test_a_clipped_gradient_is_no_longer_than_told(quadrants: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch.manual_seed(0)
    model = softmax(nn.Linear(2, 3), 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    clipped = Optimisation("sgd", learning_rate=1.0, momentum=0.0, clip=1e-3)
    fit(model, quadrants, epochs=1, batch_size=96, optimisation=clipped)
    moved = torch.cat([(value - before[name]).flatten() for name, value in model.state_dict().items()])
    assert float(moved.norm()) == pytest.approx(1e-3, rel=1e-2)


def test_weight_decay_leaves_weights_with_a_law_to_their_prior() -> None:
    model = bnn(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 3)), 3)
    groups = build_optimizer(model, Optimisation(weight_decay=0.1), fused=False).param_groups
    decayed = {id(weight) for group in groups if group["weight_decay"] for weight in group["params"]}
    assert decayed == {id(weight) for weight in model.backbone[0].parameters()}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


@pytest.mark.parametrize("wrong", [Optimisation(optimizer="adan"), Optimisation(schedule="cosin")])  # type: ignore[arg-type]
def test_unknown_names_are_refused(wrong: Optimisation, quadrants: tuple[torch.Tensor, torch.Tensor]) -> None:
    with pytest.raises(UnknownNameError):
        fit(softmax(nn.Linear(2, 3), 3), quadrants, epochs=1, optimisation=wrong)
