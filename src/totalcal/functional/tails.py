"""From distances to probabilities: how many held-out rows are as strange, and what that promises."""

from typing import NamedTuple

import torch
from torch import Tensor

TAIL_FROM = 0.95
_NO_EXCESS = 1e-6  # of the scores' own size: below it the tail is ties, give or take rounding


def conformal_p_value(scores: Tensor, calibration: Tensor) -> Tensor:
    """(1 + #{i: s_i ≥ s}) / (n + 1), in float64; `calibration` is sorted along its last axis.

    If a new score is exchangeable with the n calibration scores, P(p ≤ a) ≤ a for every a, at any n and with
    any ties: the rank of one of n + 1 exchangeable numbers is uniform, and ties only raise p. Nothing can be
    promised below 1/(n + 1), the smallest value there is.

    >>> conformal_p_value(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    above = calibration.shape[-1] - torch.searchsorted(calibration, scores.contiguous(), side="left")
    return (1 + above).double() / (calibration.shape[-1] + 1)


class Tails(NamedTuple):
    """Tail probabilities of several statistics: sorted reference scores [J, n], and how each goes on beyond.

    Up to the 95th percentile q of the reference it is the conformal count; beyond, p(q) · exp(−(s − q) / b)
    with b the mean excess over q, so that p goes on falling where no reference score lies.
    """

    reference: Tensor
    quantile: Tensor
    log_start: Tensor
    excess: Tensor

    @classmethod
    def fitted(cls, scores: Tensor) -> "Tails":
        """From scores [n, J] of held-out rows. Where those beyond q tie, b is ∞, and the counts go on."""
        reference = scores.double().T.contiguous().sort(-1).values
        index = int(TAIL_FROM * (len(scores) - 1))
        quantile = reference[:, index]
        beyond = reference[:, index + 1 :]
        excess = (beyond - quantile[:, None]).sum(-1) / max(beyond.shape[1], 1)
        size = torch.maximum(quantile.abs(), reference[:, -1] - reference[:, 0])
        is_tied = excess <= _NO_EXCESS * size
        log_start = conformal_p_value(quantile[:, None], reference)[:, 0].log()
        return cls(reference, quantile, log_start, excess.masked_fill(is_tied, torch.inf))

    def log_p(self, scores: Tensor) -> Tensor:
        """log p_j of scores [n, J]."""
        columns = scores.double().T.contiguous()
        counted = conformal_p_value(columns, self.reference).log()
        over = columns - self.quantile[:, None]
        tail = self.log_start[:, None] - over / self.excess[:, None]
        return torch.where((over > 0) & self.excess.isfinite()[:, None], tail, counted).T


def fisher(log_p_values: Tensor) -> Tensor:
    """T = −Σ_j log p_j over the last axis (Fisher's statistic, up to the factor 2).

    >>> fisher(torch.tensor([[0.0, 0.0]]))
    tensor([0.])
    """
    return -log_p_values.sum(-1) + 0.0  # not −0
