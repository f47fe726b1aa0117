"""The loop: optimisers, schedules, numbers that are not finite."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR

from totalcal import bnn, fit, softmax, train
from totalcal.errors import DivergenceError, UnknownNameError
from totalcal.training.loop import flushed_denormals
from totalcal.training.optimizers import PlannedSchedule, build_optimizer
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


def denormals_are_kept() -> bool:
    return bool(torch.tensor([1e-30]) * torch.tensor([1e-10]) > 0)


@pytest.mark.parametrize("flushed_by_the_user", [False, True])
def test_denormal_numbers_are_zeros_within_and_what_they_were_after(
    flushed_by_the_user: bool, quadrants: tuple[torch.Tensor, torch.Tensor]
) -> None:
    if not torch.set_flush_denormal(flushed_by_the_user):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        with flushed_denormals():
            assert not denormals_are_kept()
        assert denormals_are_kept() is not flushed_by_the_user
        fit(softmax(nn.Linear(2, 3), 3), quadrants, epochs=1)
        assert denormals_are_kept() is not flushed_by_the_user
    finally:
        torch.set_flush_denormal(False)


class Root(nn.Module):
    """Its first loss is log 3, and the gradient of it is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.weight.sqrt().expand(len(inputs), 3)


@pytest.mark.parametrize(
    "one_step",
    [partial(fit, epochs=1), lambda model, rows: train(model, *rows, epochs=1)],
    ids=["fit", "train"],
)
def test_training_does_not_end_in_weights_that_are_not_finite(
    one_step: Callable[..., object], quadrants: tuple[torch.Tensor, torch.Tensor]
) -> None:
    with pytest.raises(DivergenceError, match=r"backbone\.weight"):
        one_step(softmax(Root(), 3), quadrants)


def test_a_plain_loop_refuses_a_loss_that_is_not_finite(
    quadrants: tuple[torch.Tensor, torch.Tensor],
) -> None:
    with pytest.raises(DivergenceError, match=r"epoch 0, step 1: .*expected_nll"):
        train(softmax(Root(), 3), *quadrants, epochs=1, batch_size=48)


def test_a_mask_of_minus_infinity_is_no_divergence(quadrants: tuple[torch.Tensor, torch.Tensor]) -> None:
    net = nn.Linear(2, 3)
    net.register_buffer("mask", torch.tensor([-torch.inf]))
    train(softmax(net, 3), *quadrants, epochs=1)


@pytest.mark.parametrize("steps", [20, 64, 1000])
def test_one_cycle_is_pytorchs_own(steps: int) -> None:
    weight = nn.Parameter(torch.zeros(1))
    ours, theirs = SGD([weight], lr=0.2), SGD([weight], lr=0.2)
    schedule = PlannedSchedule(ours, Optimisation(learning_rate=0.2, schedule="one_cycle"), 4, steps // 4)
    reference = OneCycleLR(theirs, max_lr=0.2, total_steps=steps, cycle_momentum=False)
    for _ in range(steps - 1):
        assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-9)
        ours.step(), theirs.step()
        schedule.after_step(), reference.step()
        schedule.after_epoch(None)  # moves by steps alone


def test_a_warm_up_rises_to_the_schedule_that_would_have_been() -> None:
    rates = {}
    for warmup in (0.0, 1.5):
        optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = PlannedSchedule(optimizer, Optimisation("sgd", 1.0, warmup=warmup), epochs=4, steps=10)
        rates[warmup] = []
        for step in range(40):
            rates[warmup].append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.after_step()
            if step % 10 == 9:
                schedule.after_epoch(None)
    assert rates[1.5][:15] == pytest.approx([rates[0.0][i] * (i + 1) / 15 for i in range(15)])
    assert rates[1.5][15:] == pytest.approx(rates[0.0][15:])
