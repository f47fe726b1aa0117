"""What every model owes to a training loop."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from totalcal import Batch, TuringProcess, fit, train
from totalcal.training.checkpoint import layers_of
from totalcal.types import LossTerms


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_terms_are_finite_scalars_and_every_parameter_gets_a_finite_gradient(
    model: TuringProcess, data: Batch
) -> None:
    terms = model(data.inputs, data.labels, context=10, generator=seeded())
    assert all(term.shape == () and torch.isfinite(term) for term in terms[:4])
    terms._replace(scales=terms.scales._replace(local=1.0)).total(examples=len(data.labels)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_loss_falls_on_a_small_problem(model: TuringProcess, data: Batch) -> None:
    history = train(model, *data, epochs=20, learning_rate=0.01, batch_size=32, generator=seeded())
    first, last = history[:3], history[-3:]
    assert sum(step.expected_nll for step in last) < 0.8 * sum(step.expected_nll for step in first)


def test_loss_terms_change_no_state(model: TuringProcess, data: Batch) -> None:
    embedding = model.encode(data.inputs, seeded())
    before = copy.deepcopy(model.state_dict())
    model.loss_terms(embedding, data.labels, context=10, generator=seeded())
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_forward_is_encode_absorb_loss_terms(model: TuringProcess, data: Batch) -> None:
    by_hand, generator = copy.deepcopy(model), seeded()
    embedding = by_hand.encode(data.inputs, generator)
    by_hand.absorb(embedding[:10].detach(), data.labels[:10])
    expected = by_hand.loss_terms(embedding, data.labels, 10, generator)
    _assert_same(model(data.inputs, data.labels, 10, seeded()), expected)


def test_the_same_generator_gives_the_same_terms_bit_for_bit(model: TuringProcess, data: Batch) -> None:
    twin = copy.deepcopy(model)
    _assert_same(model(*data, context=10, generator=seeded(3)), twin(*data, context=10, generator=seeded(3)))


def test_one_example_and_an_empty_context_are_enough(model: TuringProcess, data: Batch) -> None:
    terms = model(data.inputs[:1], data.labels[:1], generator=seeded())
    assert torch.isfinite(terms.total(examples=1))


def test_two_classes_work(name: str, fresh_model: Callable[..., TuringProcess], data: Batch) -> None:
    model = fresh_model(name, num_classes=2)
    history = train(model, data.inputs, (data.labels > 0).long(), epochs=3, batch_size=32, generator=seeded())
    assert all(torch.isfinite(torch.tensor(step.loss)) for step in history)


def test_training_from_one_seed_repeats_itself(
    name: str, fresh_model: Callable[..., TuringProcess], data: Batch
) -> None:
    runs = [train(fresh_model(name), *data, epochs=2, batch_size=32, generator=seeded(7)) for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_weight_kl_counts_once_for_the_whole_training_set(model: TuringProcess, data: Batch) -> None:
    terms = model(*data, context=10, generator=seeded())
    difference = terms.total(examples=10) - terms.total(examples=20)
    expected = terms.scales.weights * terms.weight_kl * (1 / 10 - 1 / 20)
    torch.testing.assert_close(difference, expected.to(difference), rtol=1e-4, atol=1e-6)


def _assert_same(first: LossTerms, second: LossTerms) -> None:
    for one, other in zip(first[:4], second[:4], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
def test_many_classes_stay_finite(
    name: str, fresh_model: Callable[..., TuringProcess], data: Batch, classes: int
) -> None:
    model = fresh_model(name, num_classes=classes)
    labels = torch.arange(len(data.labels)) % classes
    terms = model(100 * data.inputs, labels, context=10, generator=seeded())
    loss = terms.total(examples=len(labels))
    loss.backward()
    assert torch.isfinite(loss)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_runs_of_one_seed_are_alike_with_workers_that_load_the_data(
    model: TuringProcess, data: Batch
) -> None:
    """Each worker has randomness of its own, which is a function of the run's seed too."""

    class Noisy(TensorDataset):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            inputs, label = super().__getitem__(index)
            return inputs + 0.1 * torch.randn(inputs.shape), label

    def fitted() -> dict[str, torch.Tensor]:
        fresh = copy.deepcopy(model)
        loader = DataLoader(Noisy(*data), 32, shuffle=True, num_workers=1)
        fit(fresh, loader, epochs=2, seed=3, progress=False)
        return fresh.state_dict()

    first, second = fitted(), fitted()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_checkpoint_describes_a_model_alike_in_every_process(model: TuringProcess) -> None:
    """An address in memory would make every process but the first refuse to go on."""
    assert " at 0x" not in str(layers_of(model))
