"""From distances to probabilities: how many held-out rows are as strange, and what that promises."""

import torch
from torch import Tensor

TAIL_FROM = 0.95
_NO_EXCESS = 1e-6  # of the scores' own size: below it the tail is ties, give or take rounding


def conformal_p_value(scores: Tensor, calibration: Tensor) -> Tensor:
    """(1 + #{i: s_i ≥ s}) / (n + 1), in float64; `calibration` is sorted.

    If a new score is exchangeable with the n calibration scores, P(p ≤ a) ≤ a for every a, at any n and with
    any ties: the rank of one of n + 1 exchangeable numbers is uniform, and ties only raise p. Nothing can be
    promised below 1/(n + 1), the smallest value there is.

    >>> conformal_p_value(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    above = len(calibration) - torch.searchsorted(calibration, scores.contiguous(), side="left")
    return (1 + above).double() / (len(calibration) + 1)


def log_tail_probability(scores: Tensor, reference: Tensor) -> Tensor:
    """log p of each score among sorted reference scores; beyond their 95th percentile an exponential tail.

    Up to the percentile q it is the conformal count; beyond, p(q) · exp(−(s − q) / b) with b the mean excess
    over q, so that p goes on falling where no reference score lies. Where the scores beyond q tie there is no
    excess to go by, and the counts stay.
    """
    counted = conformal_p_value(scores, reference).log()
    last = len(reference) - 1
    index = int(TAIL_FROM * last)
    quantile = reference[index]
    excess = (reference[index + 1 :] - quantile).double().mean() if index < last else quantile.double() * 0
    if excess <= _NO_EXCESS * max(abs(float(quantile)), float(reference[-1] - reference[0])):
        return counted
    start = conformal_p_value(quantile.reshape(1), reference).log()
    tail = start - (scores - quantile).double() / excess
    return torch.where(scores > quantile, tail, counted)


def fisher(log_p_values: Tensor) -> Tensor:
    """T = −Σ_j log p_j over the last axis (Fisher's statistic, up to the factor 2).

    >>> fisher(torch.tensor([[0.0, 0.0]]))
    tensor([0.])
    """
    return -log_p_values.sum(-1) + 0.0  # not −0
