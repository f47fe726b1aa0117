"""Attention against torch's own implementation."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from totalcal.functional.cells import attention_weights, multi_head_weights, read, read_along


def test_a_read_is_scaled_dot_product_attention() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 7, 5), torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    ours = read(attention_weights(queries, keys), values)
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(queries, keys, values))


def test_several_heads_read_the_mean_of_what_each_reads() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(6, 4), torch.randn(3, 8, 4), torch.randn(8, 4)
    each = [F.scaled_dot_product_attention(queries, head, values) for head in keys]
    ours = read(multi_head_weights(queries, keys), values)
    torch.testing.assert_close(ours, torch.stack(each).mean(0))


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
