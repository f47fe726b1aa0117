"""Prototypes against scipy, scikit-learn and brute force.

Tail probabilities: the promise by simulation, the tail against scipy.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from totalcal.memory import distances
from totalcal.memory.distances import Tails, conformal_p_value, less_rounding, spread_of


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    return torch.randn(90, 5, generator=generator, dtype=torch.float64) @ mixing + 7


def test_the_nearest_point_is_found(rows: torch.Tensor) -> None:
    points = rows[:7] / 3
    found = distances.nearest(rows, points, distances.squares_of(points))
    np.testing.assert_allclose(found, cdist(rows, points).min(1), rtol=1e-7)


def test_a_row_that_lies_on_a_point_is_as_far_as_rounding_is() -> None:
    points = torch.nn.functional.normalize(torch.randn(20, 300), dim=1)
    found = distances.nearest(points, points, distances.squares_of(points))
    assert (found < 0.02).all()
    assert len(found.unique()) == 1


def test_prototypes_are_those_of_scikit_learn_s_k_means() -> None:
    generator = torch.Generator().manual_seed(2)
    centres = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    rows = centres.repeat(30, 1) + 0.3 * torch.randn(180, 4, generator=generator, dtype=torch.float64)
    units = torch.nn.functional.normalize(rows, dim=1).numpy()
    oracle = KMeans(6, init=units[:6], n_init=1, algorithm="lloyd", tol=0, max_iter=25).fit(units)
    found = distances.centroids(torch.tensor(units), 6)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(oracle.cluster_centers_, axis=0), atol=1e-10)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_map_is_known_by_its_channels_means_and_deviations(layout: torch.memory_format) -> None:
    maps = torch.randn(4, 3, 5, 6, dtype=torch.float64).to(memory_format=layout)
    expected = np.concatenate([maps.numpy().mean((2, 3)), maps.numpy().std((2, 3))], axis=1)
    np.testing.assert_allclose(distances.pooled_map(maps), expected, rtol=1e-10)


def test_tokens_are_averaged_row_by_row() -> None:
    values, rows = torch.arange(10.0).reshape(5, 2), torch.tensor([1, 0, 1, 1, 0])
    expected = torch.stack([values[rows == row].mean(0) for row in range(2)])
    torch.testing.assert_close(distances.mean_by_row(values, rows, 2), expected)


def log_tail_probability(scores: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    return Tails.fitted(reference[:, None]).log_p(scores[:, None])[:, 0]


LEVELS = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.9])


def sampler(kind: str) -> stats.rv_continuous | stats.rv_discrete:
    return {
        "continuous": stats.lognorm(1.5),
        "ties": stats.poisson(1.3),
        "nearly constant": stats.bernoulli(0.02),
    }[kind]


@pytest.mark.parametrize("kind", ["continuous", "ties", "nearly constant"])
@pytest.mark.parametrize(("calibration_rows", "repetitions"), [(20, 20_000), (200, 10_000), (5_000, 2_000)])
def test_a_row_like_the_held_out_ones_has_p_at_most_a_with_probability_at_most_a(
    kind: str, calibration_rows: int, repetitions: int
) -> None:
    random = np.random.default_rng(calibration_rows)
    scores = sampler(kind).rvs((repetitions, calibration_rows + 1), random_state=random).astype(float)
    new, calibration = torch.tensor(scores[:, :1]), torch.tensor(np.sort(scores[:, 1:], axis=1))
    p = torch.cat([conformal_p_value(one, rows) for one, rows in zip(new, calibration, strict=True)]).numpy()
    share = (p[:, None] <= LEVELS).mean(0)
    surely_more = stats.binom.isf(1e-6, repetitions, LEVELS) / repetitions
    assert (share <= surely_more).all()
    assert p.min() >= 1 / (calibration_rows + 1)
    if kind == "continuous":  # exact: no power is given away
        exact = np.floor(LEVELS * (calibration_rows + 1)) / (calibration_rows + 1)
        assert (share >= stats.binom.ppf(1e-6, repetitions, exact) / repetitions).all()


@pytest.mark.parametrize("kind", ["continuous", "ties", "nearly constant"])
def test_a_score_that_rounding_changes_keeps_the_promise_and_hardly_any_power(kind: str) -> None:
    """The calibration scores are rounded one way, the new one another: without help, ties would be lost."""
    random, rows, repetitions = np.random.default_rng(0), 200, 10_000
    exact = 1 + sampler(kind).rvs((repetitions, rows + 1), random_state=random).astype(float)
    scores = exact * (1 + 1e-4 * random.uniform(-1, 1, exact.shape))
    scores[:, 0] = exact[:, 0] * (1 + 1e-4)
    new, calibration = torch.tensor(scores[:, :1]), torch.tensor(np.sort(scores[:, 1:], axis=1))
    pairs = zip(less_rounding(new, spread_of(calibration)), calibration, strict=True)
    p = torch.cat([conformal_p_value(one, others) for one, others in pairs]).numpy()
    share = (p[:, None] <= LEVELS).mean(0)
    assert (share <= stats.binom.isf(1e-6, repetitions, LEVELS) / repetitions).all()
    if kind == "continuous":
        assert (share >= 0.95 * np.floor(LEVELS * (rows + 1)) / (rows + 1) - 0.005).all()


def test_p_values_are_counts_by_brute_force() -> None:
    calibration = torch.tensor([1.0, 2.0, 2.0, 2.0, 5.0])
    for score in (0.5, 1.0, 2.0, 3.0, 5.0, 6.0):
        expected = (1 + sum(s >= score for s in calibration.tolist())) / 6
        assert conformal_p_value(torch.tensor([score]), calibration).item() == pytest.approx(expected)


def test_the_tail_of_exponential_scores_is_their_survival_function() -> None:
    reference = torch.tensor(np.sort(stats.expon.rvs(size=20_000, random_state=0)))
    scores = torch.tensor([4.0, 8.0, 40.0, 400.0], dtype=torch.float64)
    np.testing.assert_allclose(log_tail_probability(scores, reference), stats.expon.logsf(scores), rtol=0.06)


def test_the_tail_is_that_of_scipy_s_exponential_fit_of_the_excesses() -> None:
    reference = torch.tensor(np.sort(stats.gamma(3).rvs(2_001, random_state=1)))
    quantile = np.quantile(reference, 0.95)  # 0.95 · 2,000 is whole: the quantile is one of the scores
    _, scale = stats.expon.fit(reference[reference > quantile] - quantile, floc=0)
    scores = torch.tensor([quantile + 1.0, quantile + 30.0], dtype=torch.float64)
    start = math.log((1 + int((reference >= quantile).sum())) / 2_002)
    expected = start + stats.expon(scale=scale).logsf(scores.numpy() - quantile)
    np.testing.assert_allclose(log_tail_probability(scores, reference), expected, rtol=1e-9)


def test_log_probabilities_fall_with_the_score_and_are_counts_below_the_tail() -> None:
    reference = torch.tensor(np.sort(stats.norm.rvs(size=400, random_state=2)))
    scores = torch.linspace(-4, 50, 3_000, dtype=torch.float64)
    found = log_tail_probability(scores, reference)
    assert (found.diff() <= 1e-12).all()
    body = scores < reference[int(0.95 * 399)]
    torch.testing.assert_close(found[body], conformal_p_value(scores[body], reference).log())


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_ties_beyond_the_percentile_fall_back_to_counts(noise: float) -> None:
    ends = 1 + noise * torch.rand(50, dtype=torch.float64)
    reference = torch.cat([torch.linspace(0, 1, 151, dtype=torch.float64)[:-1], ends]).sort().values
    scores = torch.tensor([0.5, 2.0, 1e6], dtype=torch.float64)
    torch.testing.assert_close(
        log_tail_probability(scores, reference), conformal_p_value(scores, reference).log()
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 20])
def test_few_reference_scores_are_enough(rows: int) -> None:
    found = log_tail_probability(torch.tensor([-1.0, 0.5, 99.0]), torch.linspace(0, 1, rows))
    assert found.isfinite().all()
    assert (found <= 0).all()


def test_each_statistic_has_a_tail_of_its_own() -> None:
    reference = torch.rand(50, 3, dtype=torch.float64) * torch.tensor([1.0, 10.0, 0.0])
    scores = torch.rand(7, 3, dtype=torch.float64) * 20
    together = Tails.fitted(reference).log_p(scores)
    for j in range(3):
        alone = Tails.fitted(reference[:, j : j + 1]).log_p(scores[:, j : j + 1])
        torch.testing.assert_close(together[:, j : j + 1], alone)
