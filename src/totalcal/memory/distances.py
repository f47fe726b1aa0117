"""Prototypes and how far rows lie from them, and what ranks among held-out rows say and promise.

All distances grow as an input becomes less familiar. Rows are [n, d].
"""

import torch
from torch import Tensor, nn

_ROUNDS, _FEWEST_ROUNDS, _ROWS_MET = 25, 3, 100_000
_LARGEST_BLOCK = 2**20  # numbers at once: what fits the caches
_CLOSEST = 1e3  # in units of rounding, squared


def squares_of(points: Tensor) -> Tensor:
    """‖m‖² of each point, [R]."""
    return points.square().sum(-1)


def nearest(rows: Tensor, points: Tensor, squares: Tensor) -> Tensor:
    """min_r ‖x − m_r‖, [n], for given ‖m_r‖².

    At least 0.01 in float32, and less in float64: rows have a length of about one, and nearer to a point no
    digit of it would be more than rounding.

    >>> nearest(torch.tensor([[0.6, 0.8]]), torch.eye(2), torch.ones(2))
    tensor([0.6325])
    """
    found = torch.addmm(squares, rows, points.T, alpha=-2).amin(-1) + rows.square().sum(-1)
    distances: Tensor = found.clamp_min(_CLOSEST * torch.finfo(rows.dtype).eps).sqrt()
    return distances


def centroids(rows: Tensor, count: int) -> Tensor:
    """Lloyd's k-means of rows, [count, d], that starts from the first `count` of them.

    Deterministic: the same rows in the same order give the same centroids. A centroid without rows stays. Up
    to 4,000 rows there are 25 rounds, beyond so many that each centroid meets 100,000 rows in all: the more
    rows, the less a round more changes, and time grows with the number of centroids, not with its square.
    """
    found = rows[:count].clone()
    nearest = torch.empty(len(rows), dtype=torch.long, device=rows.device)
    block_rows = max(1, _LARGEST_BLOCK // max(count, 1))
    products = rows.new_empty(min(block_rows, len(rows)), len(found))
    for _ in range(min(_ROUNDS, max(_FEWEST_ROUNDS, _ROWS_MET // max(len(rows), 1)))):
        squares = squares_of(found)
        for block, places in zip(rows.split(block_rows), nearest.split(block_rows), strict=True):
            product = torch.addmm(squares, block, found.T, alpha=-2, out=products[: len(block)])
            torch.argmin(product, -1, out=places)
        sums = torch.zeros_like(found).index_add_(0, nearest, rows)
        sizes = torch.bincount(nearest, minlength=len(found)).to(sums)[:, None]
        updated = torch.where(sizes > 0, sums / sizes.clamp_min(1), found)
        if torch.equal(updated, found):
            break
        found = updated
    return found


def pooled_map(maps: Tensor) -> Tensor:
    """Mean and standard deviation of each channel over the positions: [n, C, …] to [n, 2C].

    >>> pooled_map(torch.tensor([[[1.0, 3.0]]]))
    tensor([[2., 1.]])
    """
    positions = maps.flatten(2)
    mean = positions.mean(-1)
    deviation = (positions - mean.unsqueeze(-1)).square_().mean(-1).sqrt()
    return torch.cat([mean, deviation], dim=-1)


def mean_by_row(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """The mean over each row's tokens, [count, …]; `rows` [tokens] says whose each of `values` is.

    >>> mean_by_row(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([2., 5.])
    """
    sums = values.new_zeros(count, *values.shape[1:]).index_add_(0, rows, values)
    sizes = values.new_zeros(count).index_add_(0, rows, values.new_ones(rows.shape[0])).clamp_min(1)
    return sums / sizes.view(-1, *[1] * (values.dim() - 1))


TAIL_FROM = 0.95
_NO_EXCESS = 1e-6  # of the scores' own size: below it the tail is ties, give or take rounding
_OF_A_SCORE, _OF_THE_SPREAD = 1e-3, 3e-6  # what rounding may change


def conformal_p_value(scores: Tensor, calibration: Tensor) -> Tensor:
    """(1 + #{i: s_i ≥ s}) / (n + 1), in float64; `calibration` is sorted along its last axis.

    If a new score is exchangeable with the n calibration scores, P(p ≤ a) ≤ a for every a, at any n and with
    any ties: the rank of one of n + 1 exchangeable numbers is uniform, and ties only raise p. Nothing can be
    promised below 1/(n + 1), the smallest value there is.

    >>> conformal_p_value(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    ranks = calibration.shape[-1] + 1
    below = torch.searchsorted(calibration, scores.contiguous(), side="left")
    return (ranks - below.double()) / ranks


def spread_of(reference: Tensor) -> Tensor:
    """q₉₅ − q₅ along the last axis, which is sorted, [..., 1].

    >>> spread_of(torch.arange(101.0))
    tensor([90.])
    """
    last = reference.shape[-1] - 1
    high, low = int(TAIL_FROM * last), int((1 - TAIL_FROM) * last)
    return reference[..., high : high + 1] - reference[..., low : low + 1]


def less_rounding(scores: Tensor, spread: Tensor) -> Tensor:
    """s − 10⁻³ |s| − 3·10⁻⁶ (q₉₅ − q₅): scores, less all that rounding may have added to them.

    The last digits of a net's numbers change with the rows beside a row. Among rows that repeat, as those of
    tables do, such a digit would set a score above all that equal it. Lowered, it counts them, and a few more
    than it should: p only rises, so that its promise holds. In float32, distances of a net differ by up to
    10⁻⁴ of their size between a row alone and in a batch; those that cross zero, by 10⁻⁶ of their spread.

    >>> calibration = torch.tensor([1.0, 2.0, 2.0, 2.0])
    >>> conformal_p_value(less_rounding(torch.tensor([2.00001]), spread_of(calibration)), calibration)
    tensor([0.8000], dtype=torch.float64)
    """
    lowered = torch.sub(scores, scores.abs(), alpha=_OF_A_SCORE)
    return torch.sub(lowered, spread, alpha=_OF_THE_SPREAD)


class Tails(nn.Module):
    """Tail probabilities of several statistics: sorted reference scores [J, n], and how each goes on beyond.

    Up to the 95th percentile q of the reference it is the conformal count; beyond, p(q) · exp(−(s − q) / b)
    with b the mean excess over q, so that p goes on falling where no reference score lies.

    Attributes:
        reference: The scores of held-out rows, sorted, [J, n]; all else is made of it.
        spread: Of them, [J, 1].
        start: q, or ∞ where the scores beyond it tie: there the counts go on.
        log_p_at_zero: Where the line log p(s) of the tail would meet s = 0.
        rate: 1 / b.
    """

    reference: Tensor
    spread: Tensor
    start: Tensor
    log_p_at_zero: Tensor
    rate: Tensor

    def __init__(self, reference: Tensor) -> None:
        super().__init__()
        self.register_buffer("reference", reference)
        index = int(TAIL_FROM * (reference.shape[-1] - 1))
        quantile, beyond = reference[:, index : index + 1], reference[:, index + 1 :]
        excess = (beyond - quantile).sum(-1, keepdim=True) / max(beyond.shape[1], 1)
        size = torch.maximum(quantile.abs(), reference[:, -1:] - reference[:, :1])
        is_tied = excess <= _NO_EXCESS * size
        rate = torch.where(is_tied, 0, 1 / excess)
        made = {
            "spread": spread_of(reference),
            "start": quantile.masked_fill(is_tied, torch.inf),
            "log_p_at_zero": conformal_p_value(quantile, reference).log() + rate * quantile,
            "rate": rate,
        }
        for name, tensor in made.items():
            self.register_buffer(name, tensor, persistent=False)

    @classmethod
    def fitted(cls, scores: Tensor) -> "Tails":
        """From scores [n, J] of held-out rows."""
        return cls(scores.double().T.contiguous().sort(-1).values)

    def log_p(self, scores: Tensor) -> Tensor:
        """log p_j of scores [n, J]."""
        columns = scores.double().T.contiguous()
        counted = conformal_p_value(columns, self.reference).log()
        tail = torch.addcmul(self.log_p_at_zero, columns, self.rate, value=-1)
        return torch.where(columns > self.start, tail, counted).T
