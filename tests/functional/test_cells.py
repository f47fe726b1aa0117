"""Attention against torch's own implementation; the update rules against loops over the paper's formula."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from totalcal.functional.cells import (
    attention_weights,
    blend,
    identity,
    read,
    read_along,
    tanh_blend,
    written_content,
)


def test_a_read_is_scaled_dot_product_attention() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 7, 5), torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    ours = read(attention_weights(queries, keys), values)
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(queries, keys, values))


DRAWS = 100_000


@pytest.mark.parametrize("length", [0.0, 0.5, 10.0])
def test_noise_along_the_query_and_across_it_is_all_that_a_read_of_noisy_cells_knows(length) -> None:
    torch.manual_seed(0)
    query, cells, keys, deviation = length * torch.randn(1, 3), torch.randn(5, 3), torch.randn(3, 3), 0.4
    drawn_cells = cells + deviation * torch.randn(DRAWS, 5, 3)
    drawn = read(attention_weights(query, drawn_cells @ keys.T + 0.7), drawn_cells).squeeze(-2)
    noise = torch.randn(DRAWS, 5), torch.randn(DRAWS, 3)
    found = read_along(query, cells, keys, deviation, *noise).squeeze(-2)
    torch.testing.assert_close(found.mean(0), drawn.mean(0), rtol=0, atol=0.01)
    torch.testing.assert_close(torch.cov(found.T), torch.cov(drawn.T), rtol=0.02, atol=0.003)
    for quantile in (0.05, 0.5, 0.95):
        both = found.quantile(quantile, 0), drawn.quantile(quantile, 0)
        torch.testing.assert_close(*both, rtol=0, atol=0.02)


def test_noise_in_the_cells_moves_the_readout_towards_the_query_as_steins_lemma_says() -> None:
    torch.manual_seed(0)
    query, cells, keys, deviation = 4 * torch.randn(1, 3), torch.randn(5, 3), torch.randn(3, 3), 0.4
    drawn_cells = cells + deviation * torch.randn(DRAWS, 5, 3)
    weights = attention_weights(query, drawn_cells @ keys.T).squeeze(-2)
    direction = (query @ keys).squeeze(0) / math.sqrt(3)
    pull: Tensor = deviation**2 * (1 - weights.square().sum(-1).mean()) * direction
    drawn = (weights.unsqueeze(-1) * drawn_cells).sum(-2).mean(0)
    torch.testing.assert_close(weights.mean(0) @ cells + pull, drawn, rtol=0, atol=0.01)
    assert pull.norm() > 0.1


def example(
    seed: int, draws: int, context: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randn(3, 4, generator=generator)
    weights = torch.rand(draws, context, 3, generator=generator)
    embedding = torch.randn(context, 4, generator=generator)
    labels = torch.randint(4, (context,), generator=generator)
    return cells, weights, embedding, labels


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 5))
def test_the_paper_s_rule_agrees_with_a_loop_over_its_formula(seed: int, draws: int, context: int) -> None:
    cells, weights, embedding, labels = example(seed, draws, context)
    ours = tanh_blend(cells, written_content(weights, embedding, labels), 0.9)
    for r in range(3):
        for k in range(4):
            expected = 0.0
            for s in range(draws):
                added = 0.0
                for j in range(context):
                    soft = float(embedding[j].softmax(-1)[k])
                    added += float(weights[s, j, r]) * ((int(labels[j]) == k) + soft)
                expected += math.tanh(0.9 * float(cells[r, k]) + 0.1 * added) / draws
            assert math.isclose(float(ours[r, k]), expected, rel_tol=1e-4, abs_tol=1e-6)


def test_the_toys_rule_is_the_paper_s_without_the_tanh() -> None:
    cells, weights, embedding, labels = example(0, 1, 5)
    written = written_content(weights, embedding, labels)
    torch.testing.assert_close(tanh_blend(cells, written, 0.99), blend(cells, written, 0.99).tanh())


def test_the_identity_rule_leaves_the_cells_alone() -> None:
    cells, weights, embedding, labels = example(0, 2, 5)
    assert identity(cells, written_content(weights, embedding, labels), 0.5) is cells


def test_full_retention_forgets_nothing_and_learns_nothing() -> None:
    cells, weights, embedding, labels = example(1, 2, 5)
    written = written_content(weights, embedding, labels)
    torch.testing.assert_close(blend(cells, written, 1.0), cells)
