"""Where the uncertainty of a prediction lies (sections 3 and 4), from the beliefs of several draws of θ.

m_s and u_s are mean and variance of π given draw s of θ = (w, Z): draws × batch × classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Decomposition(NamedTuple):
    """Var[y = k | x] in three terms, each batch × classes; they add up to p (1 − p)."""

    reducible: Tensor
    irreducible: Tensor
    data: Tensor

    def summed(self) -> "Decomposition":
        """One number an input: each term summed over the classes."""
        return Decomposition(*(term.sum(-1) for term in self))


def decompose(means: Tensor, variances: Tensor) -> Decomposition:
    """The law of total variance, section 4.

    reducible = Var_s(m_s), irreducible = E_s[u_s], data = E_s[m_s − m_s² − u_s]
    """
    spread = means - means.mean(0)  # by hand, since `var` takes five times as long
    return Decomposition(
        reducible=spread.square().mean(0),
        irreducible=variances.mean(0),
        data=(means * (1 - means) - variances).mean(0).clamp_min(0),  # rounding may leave −10⁻¹⁷
    )


def categorical_entropy(probabilities: Tensor) -> Tensor:
    """H(p) = −Σ p log p, with 0 log 0 = 0.

    >>> categorical_entropy(torch.tensor([1.0, 0.0]))
    tensor(0., dtype=torch.float64)
    """
    summands: Tensor = torch.special.entr(probabilities.double())
    return summands.sum(-1)
