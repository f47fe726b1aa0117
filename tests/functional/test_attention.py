"""Attention against torch's own implementation."""

import torch
from torch.nn import functional as F

from totalcal.functional.attention import attention_weights, multi_head_weights, read


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
