"""The formulas of the memory (section 7): attention for reading and writing, update rules, first cells.

A rule r is a pure function of the mean cells (cells × width), of what the context writes to each cell
for every draw of Z (draws × cells × width: the sums over the context), and of the retention γ. Where the
cells start, before the first write, the paper leaves open.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

_LENGTH_GUARD = 1e-12  # a query of zeros has no direction


def attention_weights(queries: Tensor, keys: Tensor) -> Tensor:
    """φ_r(v) = softmax_r(k_rᵀ v / √K), section 7; batch × cells.

    `queries` is [..., batch, width], `keys` [..., cells, width].

    >>> import torch
    >>> attention_weights(torch.zeros(1, 2), torch.zeros(4, 2))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    scores = queries @ keys.transpose(-1, -2)  # [..., batch, cells]
    return (scores / math.sqrt(queries.shape[-1])).softmax(-1)


def read(weights: Tensor, values: Tensor) -> Tensor:
    """a(v; Z) = Σ_r φ_r z_r, section 7; batch × width."""
    return weights @ values


def read_along(
    queries: Tensor, cells: Tensor, key_weight: Tensor, deviation: float, along: Tensor, across: Tensor
) -> Tensor:
    """a(v; Z) for Z = M + κ ε and keys k_r = A z_r + b, from one normal number per cell and one per column.

    The scores know ε_r only by its length along u = Aᵀv / √K: k_rᵀ v / √K = uᵀ m_r + κ ‖u‖ e_r + a constant,
    with e_r = ε_rᵀ u / ‖u‖ ~ N(0, 1), independent of what of ε_r is orthogonal to u. So with φ the softmax of
    those scores, and with η ~ N(0, I),

        a = Σ_r φ_r m_r + κ (Σ_r φ_r e_r) u/‖u‖ + κ √(Σ_r φ_r²) (I − u uᵀ/‖u‖²) η

    has, given v, exactly the distribution that R · K normal numbers give it. Its mean, by Stein's lemma, is
    Σ_r E[φ_r] m_r + κ² (1 − E[Σ_r φ_r²]) u: noise in the cells moves the readout towards the query.

    `queries` is [..., batch, width]; `along` (e) is [..., cells], `across` (η) [..., width], shared by rows.
    """
    width, key_map = queries.shape[-1], key_weight / math.sqrt(queries.shape[-1])
    both = queries @ torch.cat([key_map, key_map @ cells.T], -1)  # u and uᵀ m_r by one product
    direction, scores = both.split([width, len(cells)], -1)  # [..., batch, width], [..., batch, cells]
    length = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    unit = direction / length.clamp_min(_LENGTH_GUARD)
    noise = deviation * along.unsqueeze(-2)  # [..., 1, cells]: shared by rows
    weights = torch.addcmul(scores, length, noise).softmax(-1)
    spread = deviation * torch.linalg.vector_norm(weights, dim=-1, keepdim=True)
    along_unit = weights @ noise.mT - spread * (unit @ across.unsqueeze(-1))
    readout: Tensor = weights @ cells + along_unit * unit + spread * across.unsqueeze(-2)
    return readout


UpdateRule = Callable[[Tensor, Tensor, float], Tensor]


def written_content(weights: Tensor, embedding: Tensor, labels: Tensor) -> Tensor:
    """Σ_C φ_r(v, Z) [onehot(y) + softmax(v)]: what a context writes, draws × cells × classes."""
    ones = embedding.new_ones(len(labels), 1)
    content = embedding.softmax(-1).scatter_add_(-1, labels.unsqueeze(-1), ones)  # [context, classes]
    return weights.transpose(-1, -2) @ content


def tanh_blend(cells: Tensor, written: Tensor, retention: float) -> Tensor:
    """m ← E_Z tanh(γ m + (1 − γ) Σ_C φ [onehot(y) + softmax(v)]), the paper's rule (section 7)."""
    return (retention * cells + (1 - retention) * written).tanh().mean(0)


def blend(cells: Tensor, written: Tensor, retention: float) -> Tensor:
    """m ← γ m + (1 − γ) E_Z Σ_C φ [onehot(y) + softmax(v)]: the toys' rule, no tanh (appendix B)."""
    return retention * cells + (1 - retention) * written.mean(0)


def identity(cells: Tensor, written: Tensor, retention: float) -> Tensor:
    """m ← m: a Turing Process with this rule is a plain stochastic process (section 5)."""
    return cells


CellStart = Callable[[int, int], Tensor]

_SCALE = 0.01


def squared_noise(num_cells: int, num_classes: int) -> Tensor:
    """Squares of N(0, 0.01²) draws, as the paper's authors start: all cells alike but for 10⁻⁴."""
    cells = torch.empty(num_cells, num_classes)
    if cells.is_meta:  # where noise and products have no values, and import torch._dynamo: seconds
        return cells
    return (_SCALE * torch.randn(num_cells, num_classes)).square()


def one_class_each(num_cells: int, num_classes: int) -> Tensor:
    """Each cell stands for one class in turn, so that attention can tell cells apart from the first step.

    >>> one_class_each(3, 2)
    tensor([[1., 0.],
            [0., 1.],
            [1., 0.]])
    """
    return F.one_hot(torch.arange(num_cells) % num_classes, num_classes).float()


UPDATE_RULES: Mapping[str, UpdateRule] = MappingProxyType(
    {rule.__name__: rule for rule in (tanh_blend, blend, identity)}
)
CELL_STARTS: Mapping[str, CellStart] = MappingProxyType(
    {start.__name__: start for start in (squared_noise, one_class_each)}
)
"""What run configurations and model files may name."""
