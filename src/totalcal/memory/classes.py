"""The memory as a classifier that needs no gradient: classes learned after training.

Rows are those of a metric, u = F (z − m), in which the covariance within the classes of training is 1.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

MOST_KEPT = 50
RIDGE = 1e-2  # of the mean diagonal
_TO_ALL = 1e-3
_STEPS, _ENOUGH = 50, 1e-10


@dataclass
class LearnedClass:
    """Rows of one class: n, Σ u, and those rows that have the smallest keys, in the order of the keys.

    A function of the set of rows, and that of two sets together is `merged`.
    """

    count: int
    total: Tensor
    keys: Tensor
    kept: Tensor

    @classmethod
    def of(cls, rows: Tensor, keys: Tensor) -> Self:
        """From all rows [n, D] and their keys [n]."""
        order = keys.argsort(stable=True)[:MOST_KEPT]
        return cls(len(rows), rows.double().sum(0), keys[order], rows[order].double())

    def merged(self, other: "LearnedClass") -> "LearnedClass":
        keys = torch.cat([self.keys, other.keys])
        order = keys.argsort(stable=True)[:MOST_KEPT]
        kept = torch.cat([self.kept, other.kept])[order]
        return LearnedClass(self.count + other.count, self.total + other.total, keys[order], kept)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def offsets(self) -> Tensor:
        """The rows that are kept, less their mean."""
        return self.kept - self.kept.mean(0)


class Readout(NamedTuple):
    """q(u) = softmax(t Rᵀ[u, 1] + b on classes learned): [D + 1, K], known classes first."""

    weight: Tensor
    temperature: Tensor
    bias: Tensor
    known: int

    def logits(self, rows: Tensor) -> Tensor:
        logits = rows @ self.weight[:-1].to(rows) + self.weight[-1].to(rows)
        is_learned = torch.arange(logits.shape[-1], device=rows.device) >= self.known
        return self.temperature.to(rows) * logits + self.bias.to(rows) * is_learned


def readout(
    known: Tensor, learned: list[LearnedClass], held_out: Tensor, labels: Tensor
) -> tuple[Readout, list[Tensor]]:
    """R = (Ĝ + λ mean diag Ĝ · I)⁻¹ [μ_1 … μ_K] with Ĝ = Σ_c (W_c + μ_c μ_cᵀ), and t and b.

    W_c is 1 for the classes of training; of a class learned later from m rows it is (Σ_kept d dᵀ + (50 − k)
    · 1) / 50: its own covariance as far as k ≤ 50 kept rows show it. t and b make most likely what the memory
    says of rows that are not in it: held-out ones of known classes, and each kept row of a learned class
    while it is taken out. Each class counts alike.

    Args:
        known: Means of the classes of training, [O, D].
        learned: The classes learned later, at least one.
        held_out: Rows of known classes that no sum holds, [n, D].
        labels: Their classes, [n].

    Returns:
        The readout, and for each learned class its logits of the kept rows while each is taken out.
    """
    gram, means = gram_and_means(known, learned)
    weight = torch.cholesky_solve(means.T, torch.linalg.cholesky(gram))
    left_out = left_out_scores(gram, means, learned)
    scores = torch.cat([_with_one(held_out.double()) @ weight, *left_out])
    numbers = [labels.new_full((len(each),), len(known) + place) for place, each in enumerate(left_out)]
    t, b = fitted_constants(scores, torch.cat([labels, *numbers]), len(known))
    is_learned = torch.arange(len(means)) >= len(known)
    return Readout(weight, t, b, len(known)), [t * each + b * is_learned for each in left_out]


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], -1)


def gram_and_means(known: Tensor, learned: list[LearnedClass]) -> tuple[Tensor, Tensor]:
    """Ĝ with its ridge [D + 1, D + 1], and all means with a 1 behind [K, D + 1]."""
    means = _with_one(torch.cat([known.double(), *(each.mean[None] for each in learned)]))
    offsets = torch.cat([each.offsets for each in learned]) / MOST_KEPT**0.5
    gram = means.T @ means
    gram[:-1, :-1] += offsets.T @ offsets
    gram.diagonal()[:-1] += len(known) + sum(1 - len(each.kept) / MOST_KEPT for each in learned)
    gram.diagonal().add_(RIDGE * gram.diagonal().mean())
    return gram, means


def left_out_scores(gram: Tensor, means: Tensor, learned: list[LearnedClass]) -> list[Tensor]:
    """Rᵀ[u, 1] of each kept row as if the row had never been seen, [kept, K] for each class.

    Without a row Ĝ loses μμᵀ − μ′μ′ᵀ and k/(k − 1) d dᵀ / 50 and gains 1/50 · I, which all rows share: one
    factor of Ĝ + I/50, and an update of rank three for each row. A class of one row has none.
    """
    gram = gram.clone()
    gram.diagonal()[:-1] += 1 / MOST_KEPT
    factor, found = torch.linalg.cholesky(gram), []
    own_means = means[len(means) - len(learned) :]
    solved_means = torch.cholesky_solve(own_means.T, factor).T
    for place, each in enumerate(learned):
        size = len(each.kept) if each.count > 1 else 0
        rows, mean = _with_one(each.kept)[:size], own_means[place]
        without = mean - (rows - mean) / max(each.count - 1, 1)  # [k, D + 1]
        offsets = torch.cat([each.offsets[:size], rows.new_zeros(size, 1)], -1)
        solved = torch.cholesky_solve(torch.cat([without, offsets, rows]).T, factor).T
        by_without, by_offsets, by_rows = solved.view(3, size, -1 if size else rows.shape[1])
        update = torch.stack([mean.expand_as(rows), without, offsets], 1)  # [k, 3, D + 1]
        solved_update = torch.stack([solved_means[place].expand_as(rows), by_without, by_offsets], 1)
        signs = rows.new_tensor([-1.0, 1.0, -size / max(size - 1, 1) / MOST_KEPT])
        inner = (1 / signs).diag() + update @ solved_update.mT  # [k, 3, 3]
        through = torch.linalg.solve(inner, update @ by_rows[:, :, None])  # [k, 3, 1]
        solution = by_rows - (solved_update.mT @ through).squeeze(-1)
        scores = solution @ means.T
        scores[:, len(means) - len(learned) + place] = torch.linalg.vecdot(solution, without)
        found.append(scores)
    return found


def fitted_constants(scores: Tensor, labels: Tensor, known: int) -> tuple[Tensor, Tensor]:
    """t and b that minimise the NLL of q, each class with weight 1: convex, by Newton's steps.

    Rows that a line parts would make t infinite, and a first mistake would cost all. So a thousandth of each
    row's truth goes to all classes alike.
    """
    is_learned = (torch.arange(scores.shape[1]) >= known).to(scores)
    sizes = torch.bincount(labels, minlength=scores.shape[1])
    weights = 1 / sizes[labels].to(scores)
    parameters = scores.new_tensor([1 / scores.std(), 0.0])
    features = torch.stack([scores, is_learned.expand_as(scores)], -1)  # [n, K, 2]
    at_truth = torch.lerp(features[torch.arange(len(labels)), labels], features.mean(1), _TO_ALL)

    def loss(values: Tensor) -> Tensor:
        return (weights * ((features @ values).logsumexp(-1) - at_truth @ values)).sum()

    for _ in range(_STEPS):
        q = (features @ parameters).softmax(-1)
        mean = torch.einsum("nk,nkj->nj", q, features)
        gradient = (weights[:, None] * (mean - at_truth)).sum(0)
        second = torch.einsum("n,nk,nki,nkj->ij", weights, q, features, features)
        hessian = second - torch.einsum("n,ni,nj->ij", weights, mean, mean)
        step = torch.linalg.solve(hessian + 1e-9 * torch.eye(2).to(hessian), gradient)
        size, before = 1.0, loss(parameters)
        while loss(parameters - size * step) > before and size > 1e-6:
            size /= 2
        parameters = parameters - size * step
        if float(gradient @ step) < _ENOUGH:
            break
    return parameters[0].clamp_min(0), parameters[1]
