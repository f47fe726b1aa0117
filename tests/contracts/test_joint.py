"""Definition 1 of the paper: every model is a Turing Process."""

from collections.abc import Callable

import pytest
import torch

from totalcal import MODELS, Batch, TuringProcess
from totalcal.functional.cells import identity
from totalcal.types import ContextUse


def joint(model: TuringProcess, inputs: torch.Tensor, labels: torch.Tensor, data: Batch) -> torch.Tensor:
    needed = model.context_use is ContextUse.REQUIRED
    context = Batch(data.inputs[-8:], data.labels[-8:]) if needed else None
    return model.log_joint(inputs, labels, draws=50, context=context, seed=2)


def test_permuting_the_set_leaves_the_joint_alone(trained: TuringProcess, data: Batch) -> None:
    inputs, labels = data.inputs[:5], data.labels[:5]
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = joint(trained, inputs[order], labels[order], data)
    torch.testing.assert_close(shuffled, joint(trained, inputs, labels, data), rtol=1e-5, atol=1e-6)


def test_summing_over_the_labels_of_one_member_gives_the_joint_of_the_others(
    trained: TuringProcess, data: Batch
) -> None:
    inputs, labels = data.inputs[:4], data.labels[:4]
    alternatives = []
    for label in range(trained.num_classes):
        changed = labels.clone()
        changed[-1] = label
        alternatives.append(joint(trained, inputs, changed, data))
    summed = torch.stack(alternatives).logsumexp(0)
    torch.testing.assert_close(summed, joint(trained, inputs[:3], labels[:3], data), rtol=1e-5, atol=1e-6)


def test_the_joints_of_all_label_sets_sum_to_one(trained: TuringProcess, data: Batch) -> None:
    inputs, classes = data.inputs[:2], range(trained.num_classes)
    joints = [joint(trained, inputs, torch.tensor([a, b]), data) for a in classes for b in classes]
    total = torch.stack(joints).logsumexp(0).cpu()
    torch.testing.assert_close(total, torch.zeros(()).double(), rtol=0, atol=1e-6)


def test_one_label_s_joint_is_its_predictive_probability(trained: TuringProcess, data: Batch) -> None:
    needed = trained.context_use is ContextUse.REQUIRED
    context = Batch(data.inputs[-8:], data.labels[-8:]) if needed else None
    predicted = trained.predict(data.inputs[:1], draws=4000, context=context).probabilities[0, 0].log()
    alone = trained.log_joint(data.inputs[:1], torch.tensor([0]), draws=4000, context=context)
    torch.testing.assert_close(alone, predicted, rtol=0.1, atol=0.1)


def test_after_a_write_the_conditional_is_the_joint_with_the_new_memory(
    trained: TuringProcess, fresh_model: Callable[..., TuringProcess], name: str, data: Batch
) -> None:
    """Property (ii): p_{M'}(Y | Y') has the form of (i) with M' = r(M, Y')."""
    trained.absorb_context(data.inputs[:20], data.labels[:20], generator=torch.Generator().manual_seed(0))
    other = fresh_model(name)
    other.load_state_dict(trained.state_dict())  # a process that only has M', not Y'
    inputs, labels = data.inputs[:3], data.labels[:3]
    assert torch.equal(joint(other, inputs, labels, data), joint(trained, inputs, labels, data))
    order = torch.tensor([2, 0, 1])
    shuffled = joint(trained, inputs[order], labels[order], data)
    torch.testing.assert_close(shuffled, joint(trained, inputs, labels, data), rtol=1e-5, atol=1e-6)


def test_with_the_identity_rule_a_write_changes_nothing(data: Batch) -> None:
    torch.manual_seed(0)
    model = MODELS["etp"](torch.nn.Linear(4, 3), num_classes=3, update_rule=identity)
    before = joint(model, data.inputs[:3], data.labels[:3], data)
    update = model.absorb_context(data.inputs, data.labels)
    assert update.largest == 0
    assert torch.equal(joint(model, data.inputs[:3], data.labels[:3], data), before)


@pytest.mark.parametrize("draws", [1, 7])
def test_draws_in_a_joint_are_shared_by_its_rows(trained: TuringProcess, data: Batch, draws: int) -> None:
    """Two copies of one input are one input: every draw gives both the same probability."""
    inputs, labels = data.inputs[:1], torch.tensor([0])
    needed = trained.context_use is ContextUse.REQUIRED
    context = Batch(data.inputs[-8:], data.labels[-8:]) if needed else None

    def log_joint(rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return trained.log_joint(rows, classes, draws=draws, context=context, seed=2)

    pair = log_joint(inputs.repeat(2, 1), labels.repeat(2))
    single = log_joint(inputs, labels)
    # E[p²] ≥ E[p]², with equality for one draw
    assert pair >= 2 * single - 1e-5
    if draws == 1:
        torch.testing.assert_close(pair, 2 * single, rtol=1e-4, atol=1e-5)
