"""What draws of θ say together: the parts of the variance (section 4), entropy, the joint (Definition 1)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Decomposition(NamedTuple):
    """Var[y = k | x] in three terms, each batch × classes, and each an unbiased estimate from the draws.

    With p the probability over all θ they estimate p (1 − p). With p̂ the mean of S draws they add up to
    p̂ (1 − p̂) plus an estimate of the variance of p̂ itself, over other draws: what p̂ (1 − p̂) leaves out on
    average, since p̂ is sampled. It falls as 1/S, and is 0 where nothing is drawn.
    """

    reducible: Tensor
    irreducible: Tensor
    data: Tensor

    def summed(self) -> "Decomposition":
        """One number per input: each term summed over the classes."""
        return Decomposition(*map(sum_over_classes, self))


def decompose(
    means: Tensor, variances: Tensor, paired: bool = False, complete: bool = False, members: int = 1
) -> Decomposition:
    """The law of total variance, section 4.

    reducible = Var_s(m_s), irreducible = E_s[u_s], data = E_s[m_s − m_s² − u_s]

    `complete` draws are no sample but the whole distribution, as the points of `functional.moments`: then
    Var_s is the mean square, and the three terms add up to p̂ (1 − p̂). Draws of several `members` of an
    ensemble stand one member after the other.
    """
    is_whole = complete and members == 1
    return Decomposition(
        reducible=_mean_square(means) if is_whole else variance_over_draws(means, paired, members),
        irreducible=variances.mean(0),
        data=(means * (1 - means) - variances).mean(0).clamp_min(0),  # rounding may leave −10⁻¹⁷
    )


def variance_over_draws(means: Tensor, paired: bool = False, members: int = 1) -> Tensor:
    """Var_s(m_s) without bias: the mean of ½ (m_s − m_t)² over all s, t that are independent draws.

    With `paired`, draws s and s + ⌈S / 2⌉ may depend on each other (± ε) and do not count as a pair; all
    others do. That is right for independent draws too. Draws of one of several `members` share its weights,
    so that only draws of different members count. One draw tells nothing of a variance: it gives 0.

    >>> variance_over_draws(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    tensor(1.6667)
    >>> variance_over_draws(torch.tensor([1.0, 2.0, -1.0, -2.0]), paired=True)
    tensor(2.5000)
    >>> variance_over_draws(torch.tensor([0.0, 0.0, 2.0, 2.0]), members=2)
    tensor(2.)
    """
    if members > 1:
        return _variance_over_members(means.unflatten(0, (members, -1)))
    draws = len(means)
    pairs = draws // 2 if paired else 0
    counted = draws * (draws - 1) - 2 * pairs  # ordered, s ≠ t
    spread = (means - means.mean(0)).square().sum(0)  # by hand, since `var` takes five times as long
    if counted == 0:
        return torch.zeros_like(spread)
    if pairs == 0:
        return spread / (draws - 1)
    within = (means[:pairs] - means[draws - pairs :]).square().sum(0)
    return (draws * spread - within).clamp_min(0) / counted


def _mean_square(means: Tensor) -> Tensor:
    return (means - means.mean(0)).square().mean(0)  # by hand, since `var` takes eight times as long


def _variance_over_members(means: Tensor) -> Tensor:
    """The mean of ½ (m_s − m_t)² over all s, t of different members; members × draws × …"""
    members, draws = means.shape[:2]
    count = members * draws
    spread = (means - means.mean((0, 1))).square().sum((0, 1))
    within = (means - means.mean(1, keepdim=True)).square().sum((0, 1))
    counted = count * (count - 1) - count * (draws - 1)  # ordered, of different members
    return (count * spread - draws * within).clamp_min(0) / counted


def categorical_entropy(probabilities: Tensor) -> Tensor:
    """H(p) = −Σ p log p, with 0 log 0 = 0.

    >>> categorical_entropy(torch.tensor([1.0, 0.0]))
    tensor(0., dtype=torch.float64)
    """
    summands: Tensor = torch.special.entr(probabilities.double())
    return sum_over_classes(summands)


def sum_over_classes(values: Tensor, keepdim: bool = False) -> Tensor:
    """Σ over the last axis. Two or three classes are added one by one: `sum` takes ten times as long.

    Not where a program is made of it, which has better ways.

    >>> sum_over_classes(torch.tensor([[1.0, 2.0, 4.0]]))
    tensor([7.])
    """
    if not 2 <= values.shape[-1] <= 3 or torch.compiler.is_compiling():
        return values.sum(-1, keepdim=keepdim)
    first, *others = values.split(1, -1) if keepdim else values.unbind(-1)
    for each in others:
        first = first + each
    return first


def softmax(logits: Tensor) -> Tensor:
    """exp(l_k) / Σ_j exp(l_j) over the last axis, in float64.

    >>> softmax(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """
    return torch.softmax(logits, -1, dtype=torch.float64)


def log_joint(log_likelihoods: Tensor) -> Tensor:
    """log p_M(Y) = log E_θ Π_i p(y_i | θ), property (i) of Definition 1; draws × set to a scalar.

    The mean over draws stands outside of the product: labels are independent given θ, not without it.
    """
    joint = log_likelihoods.double().sum(-1)  # [draws]
    return joint.logsumexp(0) - math.log(joint.shape[0])
