"""One attention for reading and for writing (section 7)."""

import math

from torch import Tensor


def attention_weights(queries: Tensor, keys: Tensor) -> Tensor:
    """φ_r(v) = softmax_r(k_rᵀ v / √K), section 7; batch × cells.

    `queries` is [..., batch, width], `keys` [..., cells, width].

    >>> import torch
    >>> attention_weights(torch.zeros(1, 2), torch.zeros(4, 2))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    scores = queries @ keys.transpose(-1, -2)  # [..., batch, cells]
    return (scores / math.sqrt(queries.shape[-1])).softmax(-1)


def multi_head_weights(queries: Tensor, keys: Tensor) -> Tensor:
    """The mean over heads of the attention weights; `keys` is [..., heads, cells, width].

    Each head has its own keys for the same cells. The mean of the weights reads the mean of what the
    heads read, so the readout stays in the space of the classes, and writing needs no other formula.
    """
    if keys.shape[-3] == 1:
        return attention_weights(queries, keys.squeeze(-3))
    return attention_weights(queries.unsqueeze(-3), keys).mean(-3)  # [..., batch, cells]


def read(weights: Tensor, values: Tensor) -> Tensor:
    """a(v; Z) = Σ_r φ_r z_r, section 7; batch × width."""
    return weights @ values
