"""Rules r by which the memory takes in a context (section 7).

A rule is a pure function of the mean cells (cells × width), of what the context writes to each cell
for every draw of Z (draws × cells × width: the sums over the context), and of the retention γ.
"""

from collections.abc import Callable

from torch import Tensor

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
