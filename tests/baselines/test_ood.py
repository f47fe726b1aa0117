"""Post-hoc OOD scores against scikit-learn, scipy and brute force; and how a verdict takes them by name."""

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn

from totalcal import evaluate, softmax
from totalcal.baselines.ood import OOD_BASELINES, OODScored, TrainingRows
from totalcal.errors import UnknownNameError
from totalcal.types import Predictive

CLASSES, WIDTH = 3, 6


@pytest.fixture
def train() -> TrainingRows:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % CLASSES
    mixing = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
    features = torch.randn(300, WIDTH, generator=generator, dtype=torch.float64) @ mixing
    features[torch.arange(300), labels] += 3
    return TrainingRows(features, logits_of(features), labels)


def logits_of(features: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(CLASSES, WIDTH, generator=generator, dtype=torch.float64)
    return features @ weight.T + torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)


@pytest.fixture
def features() -> Tensor:
    return 2 * torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def score(name: str, train: TrainingRows, features: Tensor) -> np.ndarray:
    return OOD_BASELINES[name](train)(features, logits_of(features)).numpy()


def test_scores_of_logits_are_those_of_scipy(train: TrainingRows, features: Tensor) -> None:
    logits = logits_of(features).numpy()
    p = special.softmax(logits, axis=1)
    np.testing.assert_allclose(score("max_softmax", train, features), 1 - p.max(1), atol=1e-12)
    np.testing.assert_allclose(score("max_logit", train, features), -logits.max(1))
    np.testing.assert_allclose(score("energy", train, features), -special.logsumexp(logits, axis=1))
    np.testing.assert_allclose(score("gen", train, features), (p**0.1 * (1 - p) ** 0.1).sum(1), rtol=1e-9)


def test_gen_takes_the_hundred_largest_probabilities() -> None:
    logits = torch.randn(4, 300, dtype=torch.float64)
    p = -np.sort(-special.softmax(logits.numpy(), axis=1), axis=1)[:, :100]
    empty = TrainingRows(logits, logits, torch.zeros(4, dtype=torch.int64))
    found = OOD_BASELINES["gen"](empty)(logits, logits)
    np.testing.assert_allclose(found, ((p * (1 - p)) ** 0.1).sum(1))


def test_the_fiftieth_neighbour_is_scikit_learn_s(train: TrainingRows, features: Tensor) -> None:
    units = [
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (train.features.numpy(), features.numpy())
    ]
    distances, _ = NearestNeighbors(n_neighbors=50).fit(units[0]).kneighbors(units[1])
    np.testing.assert_allclose(score("knn", train, features), distances[:, -1], rtol=1e-9)


def test_mahalanobis_distances_are_scikit_learn_s(train: TrainingRows, features: Tensor) -> None:
    rows, labels = train.features.numpy(), train.labels.numpy()
    means = np.stack([rows[labels == c].mean(0) for c in range(CLASSES)])
    tied = EmpiricalCovariance(assume_centered=True).fit(rows - means[labels])
    nearest = np.min([tied.mahalanobis(features.numpy() - mean) for mean in means], axis=0)
    np.testing.assert_allclose(score("mahalanobis", train, features), nearest, rtol=1e-8)
    overall = EmpiricalCovariance().fit(rows).mahalanobis(features.numpy())
    np.testing.assert_allclose(
        score("relative_mahalanobis", train, features), nearest - overall, rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("name", ["mahalanobis", "relative_mahalanobis"])
def test_with_two_plus_signs_features_have_length_one(
    name: str, train: TrainingRows, features: Tensor
) -> None:
    units = [
        torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        for rows in (train.features.numpy(), features.numpy())
    ]
    rows, labels = units[0].numpy(), train.labels.numpy()
    means = np.stack([rows[labels == c].mean(0) for c in range(CLASSES)])
    tied = EmpiricalCovariance(assume_centered=True).fit(rows - means[labels])
    expected = np.min([tied.mahalanobis(units[1].numpy() - mean) for mean in means], axis=0)
    if name == "relative_mahalanobis":
        expected -= EmpiricalCovariance().fit(rows).mahalanobis(units[1].numpy())
    np.testing.assert_allclose(score(f"{name}++", train, features), expected, rtol=1e-6, atol=1e-7)


def test_fdbd_is_the_mean_distance_to_the_boundaries_over_that_to_the_mean(
    train: TrainingRows, features: Tensor
) -> None:
    bias = logits_of(torch.zeros(1, WIDTH, dtype=torch.float64))[0].numpy()
    weight = (logits_of(torch.eye(WIDTH, dtype=torch.float64)) - torch.tensor(bias)).numpy().T
    expected = []
    for row, logits in zip(features.numpy(), logits_of(features).numpy(), strict=True):
        best = logits.argmax()
        distances = [
            abs((weight[best] - weight[c]) @ row + bias[best] - bias[c])
            / np.linalg.norm(weight[best] - weight[c])
            for c in range(CLASSES)
            if c != best
        ]
        expected.append(-np.mean(distances) / np.linalg.norm(row - train.features.numpy().mean(0)))
    np.testing.assert_allclose(score("fdbd", train, features), expected, rtol=1e-7)


def test_scale_is_the_energy_of_features_scaled_by_the_share_of_their_largest(
    train: TrainingRows, features: Tensor
) -> None:
    rows = features.abs()
    bias = logits_of(torch.zeros(1, WIDTH, dtype=torch.float64))[0].numpy()
    weight = (logits_of(torch.eye(WIDTH, dtype=torch.float64)) - torch.tensor(bias)).numpy().T
    expected = []
    for row in rows.numpy():
        share = row.sum() / np.sort(row)[-1:].sum()  # 15 % of six columns are one
        expected.append(-special.logsumexp(weight @ (row * np.exp(share)) + bias))
    np.testing.assert_allclose(score("scale", train, rows), expected, rtol=1e-7)


def test_vim_is_the_residual_of_a_principal_subspace_and_the_energy(
    train: TrainingRows, features: Tensor
) -> None:
    bias = logits_of(torch.zeros(1, WIDTH, dtype=torch.float64))[0].numpy()
    weight = (logits_of(torch.eye(WIDTH, dtype=torch.float64)) - torch.tensor(bias)).numpy().T  # [K, d]
    origin = -np.linalg.pinv(weight) @ bias
    centred = train.features.numpy() - origin
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    residual = lambda rows: np.linalg.norm((rows - origin) @ directions[WIDTH // 2 :].T, axis=1)  # noqa: E731
    alpha = train.logits.numpy().max(1).mean() / residual(train.features.numpy()).mean()
    expected = alpha * residual(features.numpy()) - special.logsumexp(logits_of(features).numpy(), axis=1)
    np.testing.assert_allclose(score("vim", train, features), expected, rtol=1e-7)


def test_the_density_is_that_of_scipy_s_gaussians(train: TrainingRows, features: Tensor) -> None:
    rows, labels = train.features.numpy(), train.labels.numpy()
    densities = [
        np.log(np.mean(labels == c))
        + stats.multivariate_normal(rows[labels == c].mean(0), np.cov(rows[labels == c].T)).logpdf(
            features.numpy()
        )
        for c in range(CLASSES)
    ]
    np.testing.assert_allclose(
        score("ddu", train, features), -special.logsumexp(densities, axis=0), rtol=1e-8
    )


@pytest.mark.parametrize("name", OOD_BASELINES)
def test_dead_features_and_classes_of_one_row_leave_scores_finite(name: str, train: TrainingRows) -> None:
    dead = train.features.clone()
    dead[:, 2] = 0
    labels = train.labels.clone()
    labels[labels == 2] = 1
    labels[0] = 2
    found = OOD_BASELINES[name](TrainingRows(dead, logits_of(dead), labels))(dead[:5], logits_of(dead[:5]))
    assert found.isfinite().all()


def test_far_rows_are_less_familiar_than_training_rows(train: TrainingRows) -> None:
    far = 30 * torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for name in ("mahalanobis", "ddu"):
        assert np.median(score(name, train, far)) > np.quantile(score(name, train, train.features), 0.9), name


def test_a_verdict_takes_them_by_name() -> None:
    torch.manual_seed(0)
    rows, labels = torch.randn(200, 4), torch.randint(3, (200,))
    process = softmax(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), 3).eval()
    scored = OODScored(process, (rows, labels))
    verdict = evaluate(scored, (rows, labels), {"far": 9 + torch.randn(40, 4)}, uncertainty="knn")
    assert set(OOD_BASELINES) <= set(verdict.panel["far"].rankings)
    assert verdict.uncertainty == "knn"
    assert verdict.auroc > 0.6
    with pytest.raises(UnknownNameError, match="knn"):
        evaluate(scored, (rows, labels), uncertainty="knnn")
    with pytest.raises(UnknownNameError, match="vim"):
        OODScored(process, (rows, labels), ["vin"])


def test_scores_join_in_order_and_match_the_whole() -> None:
    torch.manual_seed(0)
    rows, labels = torch.randn(60, 4), torch.randint(3, (60,))
    scored = OODScored(
        softmax(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), 3).eval(), (rows, labels)
    )
    joined = Predictive.joined([scored.predict(part) for part in rows.split(25)])
    for name, values in scored.predict(rows).scores.items():
        torch.testing.assert_close(joined.scores[name], values, rtol=1e-4, atol=1e-5)
