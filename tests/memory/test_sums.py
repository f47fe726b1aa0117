"""The sums and the metric, against numpy, scipy and scikit-learn."""

import numpy as np
import pytest
import scipy.linalg
import torch
from numpy.testing import assert_allclose
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from totalcal.memory.sums import Metric, Sums, metric


def rows_of(classes: int, width: int, count: int, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    means = 3 * torch.randn(classes, width, generator=generator, dtype=torch.float64)
    mixing = torch.randn(width, width, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, width, generator=generator, dtype=torch.float64) @ mixing
    return means[labels] + noise + offset, labels


def summed(rows: Tensor, labels: Tensor, batch: int = 64) -> Sums:
    sums = Sums.empty(int(labels.max()) + 1, rows.shape[1])
    for part, of_part in zip(rows.split(batch), labels.split(batch), strict=True):
        sums.add(part, of_part)
    return sums


def metric_of(rows: Tensor, labels: Tensor) -> Metric:
    return metric(summed(rows, labels), torch.zeros(rows.shape[1], dtype=torch.long), rows, labels)


def test_sums_are_those_of_numpy() -> None:
    rows, labels = rows_of(3, 5, 200)
    sums = summed(rows, labels)
    values = rows.numpy()
    assert_allclose(sums.squares, values.T @ values, rtol=1e-12)
    assert_allclose(sums.totals, [values[labels == c].sum(0) for c in range(3)], rtol=1e-12)
    assert sums.counts.tolist() == [67, 67, 66]


def test_sums_depend_on_neither_order_nor_batches() -> None:
    rows, labels = rows_of(3, 5, 200)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    for other in (summed(rows[order], labels[order]), summed(rows, labels, batch=7)):
        assert_allclose(other.squares, summed(rows, labels).squares, rtol=1e-12)


def test_in_float32_rounding_is_a_share_of_the_variance_and_not_of_the_size() -> None:
    rows, labels = rows_of(1, 4, 20_000, offset=1e4)
    sums = summed(rows.float(), labels, batch=256)
    mean = sums.totals[0] / len(rows)
    covariance = sums.squares / len(rows) - torch.outer(mean, mean)
    assert_allclose(covariance, np.cov(rows.float().double().T, bias=True), rtol=1e-4)


def test_within_the_classes_of_training_the_metric_is_one_and_under_all_rows_diagonal() -> None:
    rows, labels = rows_of(4, 6, 4000)
    found = metric_of(rows, labels)
    values, factor = rows.numpy(), found.factor.numpy()
    within = sum(np.cov(values[labels == c].T, bias=True) for c in range(4)) / 4
    ridge = found.ridge * np.diag(np.diag(within))
    assert_allclose(factor @ (within + ridge) @ factor.T, np.eye(6), atol=1e-9)
    total = factor @ (np.cov(values.T, bias=True) + ridge) @ factor.T
    assert_allclose(total, np.diag([*(1 + found.spread.numpy()), 1, 1, 1]), atol=1e-8)
    assert_allclose(found.coordinates(rows).mean(0), 0, atol=1e-9)


def test_spreads_are_the_generalised_eigenvalues_of_scipy() -> None:
    rows, labels = rows_of(4, 6, 4000)
    found = metric_of(rows, labels)
    values = rows.numpy()
    means = np.stack([values[labels == c].mean(0) for c in range(4)])
    within = sum(np.cov(values[labels == c].T, bias=True) * 1000 for c in range(4)) / 4000
    between = np.cov(means[labels].T, bias=True)
    ridge = found.ridge * np.diag(np.diag(within))
    expected = scipy.linalg.eigh(between, within + ridge, eigvals_only=True)[::-1]
    assert_allclose(found.spread, expected[:3], rtol=1e-9)
    assert_allclose(expected[3:], 0, atol=1e-9)


def test_the_nearest_centre_is_what_a_linear_discriminant_predicts() -> None:
    rows, labels = rows_of(4, 6, 4000)
    found = metric_of(rows, labels)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.25] * 4).fit(rows, labels).predict(rows)
    ours = torch.cdist(found.coordinates(rows)[:, :3], found.centres).argmin(-1).numpy()
    assert (ours == theirs).mean() > 0.995


def test_the_shrinkage_is_that_of_scikit_learn() -> None:
    rows, labels = rows_of(2, 30, 40)
    found = metric_of(rows, labels)
    values = rows.numpy()
    residuals = values - np.stack([values[labels == c].mean(0) for c in range(2)])[labels]
    alpha = ledoit_wolf_shrinkage(residuals / residuals.std(0), assume_centered=True)
    assert found.ridge == pytest.approx(alpha / (1 - alpha), rel=1e-9)


@pytest.mark.parametrize("rows", [torch.zeros(20, 3), torch.eye(2).repeat(10, 1), torch.ones(2, 4)])
def test_rows_that_hardly_differ_have_a_metric_too(rows: Tensor) -> None:
    labels = torch.arange(len(rows)) % 2
    found = metric_of(rows.double(), labels)
    assert bool(found.factor.isfinite().all())
    assert bool(found.coordinates(rows.double()).isfinite().all())


def test_a_class_without_rows_has_no_centre_and_changes_no_other() -> None:
    rows, labels = rows_of(3, 5, 300)
    full = metric_of(rows, labels)
    gapped = metric_of(rows, labels + (labels > 0))
    assert bool(gapped.centres[1].isnan().all())
    assert_allclose(gapped.centres[[0, 2, 3]].norm(dim=-1), full.centres.norm(dim=-1), rtol=1e-9)
