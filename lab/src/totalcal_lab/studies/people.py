"""People as the truth of class overlap: fifty of them voted on each test image of CIFAR-10 (CIFAR-10H).

The shares of the votes estimate f_true, of which the paper says that it cannot be measured. The mean NLL
against votes is unbiased; an entropy of fifty votes is too low by about (classes seen − 1) / 2n, which Miller
and Madow add. What people reach themselves is measured by the same scores: one half of an image's votes
against the other, and one person against all others.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from totalcal.scores import Floats, auroc
from totalcal_lab.studies.truth import rank_correlation

Votes = NDArray[np.int64]  # [images, classes]

CLEAR = 0.9
"""An image is ambiguous if no class has this share of its votes."""

CURVE = (0.0, 0.2, 0.5, 0.9)
"""Entropies of the votes, in nats, at which images are grouped for the curve."""

BINS = 15
_SMOOTHING = np.geomspace(0.01, 3, 40)


def entropy_of_votes(votes: Votes) -> Floats:
    """H + (classes seen − 1) / 2n for each image: Miller and Madow (1955), in nats, at most log K.

    >>> entropy_of_votes(np.array([[50, 0], [25, 25]])).round(4)
    array([0.    , 0.6931])
    """
    total = votes.sum(1)
    shares = votes / total[:, None]
    plain = -xlogy(shares, shares).sum(1)
    return np.asarray(np.minimum(plain + ((votes > 0).sum(1) - 1) / (2 * total), np.log(votes.shape[1])))


def is_ambiguous(votes: Votes) -> NDArray[np.bool_]:
    """Whether no class has nine of ten votes.

    >>> is_ambiguous(np.array([[45, 5], [44, 6]]))
    array([False,  True])
    """
    return np.asarray(votes.max(1) < CLEAR * votes.sum(1))


def nll_of_votes(probabilities: Floats, votes: Votes) -> float:
    """Mean −log p of a vote, each image counting once.

    >>> round(nll_of_votes(np.array([[0.5, 0.5]]), np.array([[3, 1]])), 4)
    0.6931
    """
    return float(-xlogy(votes / votes.sum(1, keepdims=True), probabilities).sum(1).mean())


class PeopleScores(NamedTuple):
    """One predictor against the votes."""

    people_nll: float
    """Mean −log p of a vote."""
    people_kl: float
    """KL(people ‖ predictor): the NLL less the mean entropy of the votes."""
    people_ece: float
    """Of the class predicted: its probability against its share of the votes, in 15 bins."""
    agreement: float
    """The mean share of the votes for the class predicted."""
    entropy_correlation: float
    """Rank correlation of the entropy with that of the votes."""
    auroc_ambiguous: float
    """How well the entropy tells ambiguous images from clear ones."""


def people_scores(probabilities: Floats, votes: Votes) -> PeopleScores:
    """All scores of one predictor.

    Args:
        probabilities: Of each image, images × classes.
        votes: How many people chose each class, images × classes.

    Example:
        >>> found = people_scores(np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([[10, 0], [5, 5]]))
        >>> round(found.agreement, 2), round(found.entropy_correlation, 2)
        (0.75, 1.0)
    """
    shares = votes / votes.sum(1, keepdims=True)
    nll = nll_of_votes(probabilities, votes)
    share = np.take_along_axis(shares, probabilities.argmax(1)[:, None], 1)[:, 0]
    entropy = -xlogy(probabilities, probabilities).sum(1)
    people, ambiguous = entropy_of_votes(votes), is_ambiguous(votes)
    both_kinds = 0 < ambiguous.sum() < len(votes)
    return PeopleScores(
        people_nll=nll,
        people_kl=nll - float(people.mean()),
        people_ece=_share_error(probabilities.max(1), share),
        agreement=float(share.mean()),
        entropy_correlation=rank_correlation(entropy, people),
        auroc_ambiguous=auroc(entropy[~ambiguous], entropy[ambiguous]) if both_kinds else math.nan,
    )


def half_against_half(votes: Votes, seed: int) -> PeopleScores:
    """One half of each image's votes, smoothed, as a predictor of the other half.

    The pseudo-count of each class is the best of forty for the other half's NLL: one number for all images.
    """
    halves = np.random.default_rng(seed).multivariate_hypergeometric
    first = np.stack([halves(row, row.sum() // 2) for row in votes])
    second = votes - first

    def smoothed(count: float | Floats) -> Floats:
        return np.asarray((first + count) / (first + count).sum(1, keepdims=True))

    best = min(_SMOOTHING, key=lambda count: nll_of_votes(smoothed(count), second))
    found = people_scores(smoothed(best), second)
    return found._replace(people_kl=found.people_nll - float(entropy_of_votes(votes).mean()))


class OnePerson(NamedTuple):
    """One person of those who voted, against all others."""

    people_nll: float
    people_kl: float
    agreement: float


def one_against_rest(votes: Votes) -> OnePerson:
    """A voter drawn at random, whose class gets probability a and the others (1 − a) / (K − 1).

    Exact, without a draw. With a = the share of the others who agree, the NLL is as low as it can be.

    >>> one_against_rest(np.array([[3, 1]])).agreement  # three in four agree with 2 of 3, one with none
    0.5
    """
    total = votes.sum(1)
    agreement = float(((votes * (votes - 1)).sum(1) / (total * (total - 1))).mean())
    others = (1 - agreement) / (votes.shape[1] - 1)
    nll = float(-xlogy(agreement, agreement) - xlogy(1 - agreement, others))
    return OnePerson(nll, nll - float(entropy_of_votes(votes).mean()), agreement)


def term_correlations(terms: Mapping[str, Floats], votes: Votes) -> dict[str, float]:
    """The rank correlation of each term of the variance with the entropy of the votes; none of a constant."""
    people = entropy_of_votes(votes)
    found = {f"{name}_correlation": rank_correlation(term, people) for name, term in terms.items()}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def entropy_curve(probabilities: Floats, votes: Votes) -> list[tuple[float, float]]:
    """Mean entropy of the votes and mean entropy of the predictor, from unanimous images to the least clear.

    >>> entropy_curve(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[10, 0], [10, 10]]))
    [(0.0, 0.0), (0.693..., 0.693...)]
    """
    people, own = entropy_of_votes(votes), -xlogy(probabilities, probabilities).sum(1)
    place = np.searchsorted(CURVE, people, side="left")
    return [(float(people[place == at].mean()), float(own[place == at].mean())) for at in np.unique(place)]


def _share_error(confidence: Floats, share: Floats) -> float:
    """Σ_m |B_m| / N · |mean share − mean confidence|, as the ECE with shares of votes for right or wrong."""
    place = np.minimum(np.ceil(confidence * BINS).astype(int), BINS) - 1
    return float(np.abs(np.bincount(np.maximum(place, 0), share - confidence)).sum() / len(share))
