"""Averaged weights against the recursion by hand, and what a run makes of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn

from totalcal import etp, fit, softmax
from totalcal.models.process import TuringProcess
from totalcal.training.averaging import AveragedWeights
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.checkpoint import load_checkpoint
from totalcal.training.history import StepReport
from totalcal.training.options import Optimisation

Pair = tuple[Tensor, Tensor]
Make = Callable[..., TuringProcess]
AVERAGED = Optimisation(learning_rate=0.03, average=0.9)


class Watch(Callback):
    """Keeps a copy of the model after every step."""

    def started(self, plan: Plan) -> None:
        self.model, self.states = plan.model, [self._copy(plan.model)]

    def stepped(self, report: StepReport) -> None:
        self.states.append(self._copy(self.model))

    @staticmethod
    def _copy(model: nn.Module) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in model.state_dict().items()}


def by_hand(states: list[dict[str, Tensor]], name: str, decay: float) -> Tensor:
    average = states[1][name].double()
    for step, state in enumerate(states[2:], start=1):
        share = min(decay, (1 + step) / (10 + step))
        average = share * average + (1 - share) * state[name].double()
    return average


def with_batchnorm() -> TuringProcess:
    torch.manual_seed(0)
    return etp(nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), 3)


def test_a_run_ends_with_the_average_of_weights_cells_and_statistics(quadrants: Pair) -> None:
    model, watch = with_batchnorm(), Watch()
    fit(model, quadrants, epochs=3, batch_size=16, optimisation=AVERAGED, callbacks=[watch])
    assert len(watch.states) == 19
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            expected = by_hand(watch.states, name, 0.9)
            assert_allclose(value, expected, rtol=1e-4, atol=1e-6, err_msg=name)
        else:
            assert torch.equal(value, watch.states[-1][name])
    assert not torch.equal(model.latent.cells, watch.states[-1]["latent.cells"])


def test_averaging_does_not_change_the_steps(quadrants: Pair, make_etp: Make) -> None:
    plain, averaged = Watch(), Watch()
    steps = {"epochs": 2, "batch_size": 32, "validation": quadrants}
    fit(make_etp(), quadrants, callbacks=[plain], optimisation=Optimisation(learning_rate=0.03), **steps)
    fit(make_etp(), quadrants, callbacks=[averaged], optimisation=AVERAGED, **steps)
    for first, second in zip(plain.states, averaged.states, strict=True):
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_validation_and_checkpoints_see_the_averaged_model(quadrants: Pair, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, loaded = softmax(nn.Linear(2, 3), 3), softmax(nn.Linear(2, 3), 3)
    history = fit(
        model, quadrants, epochs=2, optimisation=AVERAGED, validation=quadrants, checkpoints=tmp_path
    )
    truth = nn.functional.cross_entropy(model.backbone(quadrants[0]), quadrants[1])
    assert history.epochs[-1].validation_nll == pytest.approx(float(truth.detach()), rel=1e-6)
    loaded.load_state_dict(load_checkpoint(tmp_path).model)
    assert torch.equal(loaded.backbone.weight, model.backbone.weight)


def test_early_stopping_keeps_the_averaged_model_of_the_best_epoch(quadrants: Pair, make_etp: Make) -> None:
    inputs, labels = quadrants
    wrong = (inputs[:32], (labels[:32] + 1) % 3)
    first, model = make_etp(), make_etp()
    fit(
        first,
        quadrants,
        epochs=20,
        optimisation=Optimisation(schedule="constant", average=0.9),
        patience=1,
        validation=wrong,
    )
    fit(model, quadrants, epochs=1, optimisation=Optimisation(schedule="constant", average=0.9))
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_frozen_part_stays_and_the_rest_is_averaged() -> None:
    whole = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    weights = AveragedWeights(whole, whole[1], decay=0.9)
    frozen, first = whole[0].weight.clone(), whole[1].weight.clone()
    for _ in range(2):
        weights.update()
        with torch.no_grad():
            whole[1].weight.add_(1.0)
    weights.settle()
    assert torch.equal(whole[0].weight, frozen)
    assert_allclose(whole[1].weight.detach(), first.detach() + 9 / 11, rtol=1e-6)


def test_half_precision_is_averaged_in_single() -> None:
    layer = nn.Linear(1, 1, bias=False).half()
    start = layer.weight.item()
    weights = AveragedWeights(layer, layer, decay=0.9999)
    weights.update()
    with torch.no_grad():
        layer.weight.add_(1.0)
    assert weights.average is not None
    weights.average.n_averaged.fill_(10**6)
    for _ in range(100):
        weights.update()
    assert weights.average.module.weight.item() == pytest.approx(start + 0.00995, abs=2e-4)
