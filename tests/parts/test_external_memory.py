"""The external memory."""

import copy

import pytest
import torch
from torch import nn

from totalcal.errors import InputError
from totalcal.functional.cells import blend, identity, one_class_each
from totalcal.parts.latents import ExternalMemory, IdentityKeys, LinearKeys
from totalcal.parts.sampling import MEANS, Noise


def seeded(seed: int = 0) -> Noise:
    return Noise(torch.Generator().manual_seed(seed))


def example(rows: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(rows, 3, generator=generator), torch.randint(3, (rows,), generator=generator)


@pytest.fixture
def memory() -> ExternalMemory:
    torch.manual_seed(0)
    return ExternalMemory(num_cells=5, num_classes=3)


def test_cells_are_in_the_state_dict_and_have_no_gradient(memory: ExternalMemory) -> None:
    assert memory.state_dict()["cells"].shape == (5, 3)
    assert not memory.cells.requires_grad
    embedding, labels = example()
    readout, kl = memory.infer(embedding.requires_grad_(), labels, 0, seeded())
    readout.sum().backward()
    assert memory.cells.grad is None
    assert kl == 0
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in memory.key_map.parameters())


def test_a_write_moves_the_cells_by_as_much_as_it_reports(memory: ExternalMemory) -> None:
    before = memory.cells.clone()
    update = memory.absorb(*example(), seeded())
    torch.testing.assert_close(update.distances, (memory.cells - before).norm(dim=1))
    assert update.largest > 0


def test_permuting_the_context_does_not_change_the_write(memory: ExternalMemory) -> None:
    twin, (embedding, labels) = copy.deepcopy(memory), example()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    memory.absorb(embedding, labels, seeded())
    twin.absorb(embedding[order], labels[order], seeded())
    torch.testing.assert_close(memory.cells, twin.cells)


def test_without_a_generator_writes_repeat_from_the_state_alone(memory: ExternalMemory) -> None:
    twin = ExternalMemory(num_cells=5, num_classes=3)
    memory.absorb(*example(), Noise())
    twin.load_state_dict(memory.state_dict())
    torch.manual_seed(99)
    memory.absorb(*example(), Noise())
    torch.manual_seed(1)
    twin.absorb(*example(), Noise())
    assert torch.equal(memory.cells, twin.cells)


def test_more_write_draws_approach_the_expectation(memory: ExternalMemory) -> None:
    def spread(draws: int) -> torch.Tensor:
        results = []
        for seed in range(20):
            twin = copy.deepcopy(memory)
            twin.write_draws = draws
            twin.absorb(*example(), seeded(seed))
            results.append(twin.cells)
        return torch.stack(results).std(0).mean()

    assert spread(100) < 0.3 * spread(1)


def test_the_tanh_keeps_cells_in_range_where_the_plain_blend_runs_away() -> None:
    embedding, labels = example(200)
    bounded = ExternalMemory(5, 3, retention=0.9)
    free = ExternalMemory(5, 3, retention=0.9, update_rule=blend)
    for step in range(50):
        bounded.absorb(embedding, labels, seeded(step))
        free.absorb(embedding, labels, seeded(step))
    assert bounded.cells.abs().max() <= 1
    assert free.cells.abs().max() > 5


def test_a_users_rule_is_used(memory: ExternalMemory) -> None:
    memory.update_rule = lambda cells, written, retention: torch.full_like(cells, 7.0)
    memory.absorb(*example(), seeded())
    assert (memory.cells == 7).all()


def test_means_read_the_mean_cells(memory: ExternalMemory) -> None:
    embedding, _ = example()
    readout = memory.draw(embedding, None, 1, MEANS)
    keys = memory.key_map.linear(memory.cells)
    expected = nn.functional.scaled_dot_product_attention(embedding, keys, memory.cells)
    torch.testing.assert_close(readout[0], expected)


def test_draws_spread_by_the_cell_variance() -> None:
    memory = ExternalMemory(4, 3, cell_variance=0.25)
    cells = memory.drawn_cells(4000, seeded())
    torch.testing.assert_close(cells.std(0), torch.full((4, 3), 0.5), rtol=0.06, atol=0)


@pytest.mark.parametrize("key_map", [LinearKeys(3), nn.Linear(3, 3), IdentityKeys()])
def test_attention_shares_sum_to_one(key_map: nn.Module) -> None:
    memory = ExternalMemory(5, 3, key_map=key_map, update_rule=identity)
    embedding, _ = example()
    weights = memory.attention_weights(embedding, memory.drawn_cells(2, seeded()))
    assert weights.shape == (2, 12, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 12))


@pytest.mark.parametrize("wrong", [{"num_cells": 0}, {"cell_variance": -1.0}, {"retention": 1.5}])
def test_settings_without_a_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="a memory needs"):
        ExternalMemory(**{"num_cells": 5, "num_classes": 3} | wrong)


def test_a_start_of_one_class_each_tells_the_cells_apart() -> None:
    memory = ExternalMemory(6, 3, cell_start=one_class_each)
    assert torch.equal(memory.cells.argmax(1), torch.tensor([0, 1, 2, 0, 1, 2]))
