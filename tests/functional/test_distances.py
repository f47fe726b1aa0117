"""Distances against scipy, scikit-learn and brute force."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.spatial.distance import mahalanobis as scipy_mahalanobis
from sklearn.cluster import KMeans
from sklearn.covariance import EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from totalcal.functional import distances

CLASSES = 3


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    return torch.randn(90, 5, generator=generator, dtype=torch.float64) @ mixing + 7


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.arange(90) % CLASSES


def summed(rows: torch.Tensor, labels: torch.Tensor, classes: int = CLASSES) -> distances.Moments:
    sums = torch.stack([rows[labels == c].sum(0) for c in range(classes)])
    return distances.moments(torch.bincount(labels, minlength=classes), sums, rows.T @ rows)


def test_moments_are_those_of_scikit_learn(rows: torch.Tensor, labels: torch.Tensor) -> None:
    found = summed(rows, labels)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(
        rows.numpy(), labels.numpy()
    )
    np.testing.assert_allclose(found.class_means, oracle.means_, rtol=1e-10)
    np.testing.assert_allclose(found.within, oracle.covariance_, rtol=1e-9)
    np.testing.assert_allclose(found.total, EmpiricalCovariance().fit(rows.numpy()).covariance_, rtol=1e-9)


def test_a_class_without_rows_changes_nothing_of_the_others(rows: torch.Tensor, labels: torch.Tensor) -> None:
    found, more = summed(rows, labels), summed(rows, labels, classes=CLASSES + 1)
    assert more.class_means[-1].isnan().all()
    torch.testing.assert_close(more.class_means[:-1], found.class_means)
    torch.testing.assert_close(more.within, found.within)


def test_a_precision_is_the_inverse_with_a_ridge_of_the_mean_diagonal(rows: torch.Tensor) -> None:
    covariance = rows.T.cov()
    ridge = 1e-3 * covariance.trace() / 5 * torch.eye(5)
    torch.testing.assert_close(distances.precision(covariance), torch.linalg.inv(covariance + ridge))


def test_a_covariance_of_fewer_rows_than_columns_and_one_of_zeros_have_precisions() -> None:
    few = torch.randn(3, 20, dtype=torch.float64).T.cov()
    assert distances.precision(few).isfinite().all()
    assert distances.precision(torch.zeros(4, 4)).isfinite().all()


def test_mahalanobis_distances_are_scipy_s(rows: torch.Tensor, labels: torch.Tensor) -> None:
    found = summed(rows, labels)
    inverse = torch.linalg.inv(found.within)
    actual = distances.mahalanobis(found.class_means, found.mean, inverse)(rows)
    expected = [[scipy_mahalanobis(x, mean, inverse) ** 2 for mean in found.class_means] for x in rows]
    np.testing.assert_allclose(actual, expected, rtol=1e-8)


def test_the_relative_distance_takes_off_the_distance_to_all(
    rows: torch.Tensor, labels: torch.Tensor
) -> None:
    found = summed(rows, labels)
    within, total = torch.linalg.inv(found.within), torch.linalg.inv(found.total)
    actual = distances.relative_mahalanobis(found.class_means, found.mean, within, total)(rows)
    for row, x in enumerate(rows):
        to_all = scipy_mahalanobis(x, found.mean, total) ** 2
        for label, mean in enumerate(found.class_means):
            expected = scipy_mahalanobis(x, mean, within) ** 2 - to_all
            assert actual[row, label] == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_with_one_ridge_in_both_the_relative_distance_lives_in_as_many_dimensions_as_classes_less_one(
    rows: torch.Tensor, labels: torch.Tensor
) -> None:
    found = summed(rows, labels)
    level = distances.mean_variance(found.within)
    within, total = distances.precision(found.within, level), distances.precision(found.total, level)
    assert torch.linalg.matrix_rank(within - total, tol=1e-9) == CLASSES - 1
    relative = distances.relative_mahalanobis(found.class_means, found.mean, within, total)
    assert relative.factor.shape == (CLASSES - 1, 5)
    for row, x in enumerate(rows[:10]):
        to_all = scipy_mahalanobis(x, found.mean, total) ** 2
        to_first = scipy_mahalanobis(x, found.class_means[0], within) ** 2
        assert relative(rows[:10])[row, 0] == pytest.approx(to_first - to_all, rel=1e-7, abs=1e-7)


def test_float32_keeps_four_digits_of_a_badly_conditioned_distance() -> None:
    generator = torch.Generator().manual_seed(1)
    scales = torch.logspace(0, -6, 200, dtype=torch.float64)
    rows = torch.randn(2000, 200, generator=generator, dtype=torch.float64) * scales + 3
    labels = torch.zeros(2000, dtype=torch.int64)
    found = summed(rows, labels, classes=1)
    exact = distances.mahalanobis(found.class_means, found.mean, distances.precision(found.within))
    single = distances.Distances(*(part.float() for part in exact))
    torch.testing.assert_close(single(rows.float()).double(), exact(rows), rtol=1e-4, atol=1e-3)


def test_the_nearest_prototype_is_found_on_the_sphere(rows: torch.Tensor) -> None:
    prototypes = rows[:7] / 3
    units = rows / rows.norm(dim=1, keepdim=True)
    expected = cdist(units, prototypes).min(1)
    np.testing.assert_allclose(distances.nearest_prototype(rows, prototypes), expected, rtol=1e-7)


def test_a_row_of_zeros_has_a_finite_distance() -> None:
    assert distances.nearest_prototype(torch.zeros(1, 3), torch.eye(3)).item() == pytest.approx(1)


def test_prototypes_are_those_of_scikit_learn_s_k_means() -> None:
    generator = torch.Generator().manual_seed(2)
    centres = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    rows = centres.repeat(30, 1) + 0.3 * torch.randn(180, 4, generator=generator, dtype=torch.float64)
    units = torch.nn.functional.normalize(rows, dim=1).numpy()
    oracle = KMeans(6, init=units[:6], n_init=1, algorithm="lloyd", tol=0, max_iter=25).fit(units)
    found = distances.spherical_prototypes(rows, 6)
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
