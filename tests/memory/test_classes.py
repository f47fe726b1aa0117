"""Classes learned after training, against brute force, numpy, scipy and scikit-learn."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from torch import Tensor

from totalcal.memory.classes import (
    MOST_KEPT,
    RIDGE,
    LearnedClass,
    fitted_constants,
    gram_and_means,
    left_out_scores,
    readout,
)

WIDTH = 6


def rows_at(centre: float, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, WIDTH, generator=generator, dtype=torch.float64) + centre * torch.eye(WIDTH)[seed]
    )


def learned_at(centre: float, count: int, seed: int) -> LearnedClass:
    rows = rows_at(centre, count, seed)
    return LearnedClass.of(rows, torch.randperm(count, generator=torch.Generator().manual_seed(seed)))


def known() -> tuple[Tensor, Tensor, Tensor]:
    means = 4 * torch.eye(WIDTH, dtype=torch.float64)[:2]
    labels = torch.arange(80) % 2
    return (
        means,
        torch.cat([rows_at(4, 40, 0), rows_at(4, 40, 1)])[torch.arange(80) // 2 + 40 * labels],
        labels,
    )


def by_definition(means: Tensor, classes: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """R from its formula, in plain numpy: means of training, and (all rows, kept rows) of each other."""
    columns = [np.append(mean, 1) for mean in means.numpy()]
    columns += [np.append(rows.mean(0), 1) for rows, _ in classes]
    gram = np.zeros((WIDTH + 1, WIDTH + 1))
    for column in columns:
        gram += np.outer(column, column)
    gram[:WIDTH, :WIDTH] += len(means) * np.eye(WIDTH)
    for _, kept in classes:
        share = len(kept) / MOST_KEPT
        gram[:WIDTH, :WIDTH] += share * np.cov(kept.T, bias=True) + (1 - share) * np.eye(WIDTH)
    ridge = RIDGE * np.trace(gram) / len(gram)
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), np.stack(columns, 1))


def pair(learned: LearnedClass, rows: Tensor) -> tuple[np.ndarray, np.ndarray]:
    return rows.numpy(), learned.kept.numpy()


def test_the_readout_is_its_formula() -> None:
    means, held_out, labels = known()
    few, many = learned_at(4, 20, 2), learned_at(4, 90, 3)
    found, _ = readout(means, [few, many], held_out, labels)
    expected = by_definition(means, [pair(few, rows_at(4, 20, 2)), pair(many, rows_at(4, 90, 3))])
    assert_allclose(found.weight, expected, rtol=1e-8)


@pytest.mark.parametrize("count", [2, 7, 50, 90])
def test_a_row_taken_out_is_as_a_row_never_seen(count: int) -> None:
    means, *_ = known()
    learned, other = learned_at(4, count, 2), learned_at(4, 12, 3)
    gram, columns = gram_and_means(means, [learned, other])
    ours = left_out_scores(gram, columns, [learned, other])[0].numpy()
    rows = rows_at(4, count, 2).numpy()
    ridge = gram.diagonal()[-1].item() - len(columns)  # held fixed: it is a share of the trace
    for place, row in enumerate(learned.kept.numpy()):
        is_other = ~(rows == row).all(1)
        kept = np.delete(learned.kept.numpy(), place, 0)
        means_now = [np.append(rows[is_other].mean(0), 1)]
        full = by_definition(means, [(rows[is_other], kept), (rows_at(4, 12, 3).numpy(), other.kept.numpy())])
        # the same with the ridge of the whole
        theirs = _solved_with(means, rows[is_other], kept, rows_at(4, 12, 3).numpy(), ridge)
        assert_allclose(ours[place], theirs.T @ np.append(row, 1), rtol=1e-7, atol=1e-9)
        assert_allclose(ours[place], full.T @ np.append(row, 1), atol=0.02)
        assert len(means_now[0]) == WIDTH + 1


def _solved_with(
    means: Tensor, rows: np.ndarray, kept: np.ndarray, other: np.ndarray, ridge: float
) -> np.ndarray:
    columns = np.stack(
        [*np.c_[means.numpy(), np.ones(len(means))], np.append(rows.mean(0), 1), np.append(other.mean(0), 1)]
    )
    gram = columns.T @ columns + ridge * np.eye(WIDTH + 1)
    gram[:WIDTH, :WIDTH] += len(means) * np.eye(WIDTH)
    for each in (kept, other):
        share = len(each) / MOST_KEPT
        covariance = np.cov(each.T, bias=True) if len(each) > 1 else np.zeros((WIDTH, WIDTH))
        gram[:WIDTH, :WIDTH] += share * covariance + (1 - share) * np.eye(WIDTH)
    return np.linalg.solve(gram, columns.T)


def test_temperature_and_bias_are_those_of_scipy() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    scores = torch.randn(90, 3, generator=generator, dtype=torch.float64)
    scores[torch.arange(90), labels] += 1
    t, b = fitted_constants(scores, labels, known=2)

    truth = 0.999 * torch.nn.functional.one_hot(labels, 3) + 0.001 / 3

    def loss(values: np.ndarray) -> float:
        logits = values[0] * scores + values[1] * torch.tensor([0.0, 0.0, 1.0])
        return float(torch.nn.functional.cross_entropy(logits, truth))

    assert_allclose([t, b], minimize(loss, [1.0, 0.0]).x, atol=1e-4)


@pytest.mark.parametrize("count", [5, 50])
def test_rows_that_were_all_told_right_are_no_certainty(count: int) -> None:
    means, _, labels = known()
    found, _ = readout(10 * means, [learned_at(40, count, 2)], 10 * means[labels], labels)
    told = found.logits(rows_at(40, 200, 2)).softmax(-1)[:, 2]
    assert 1e-4 < 1 - told.mean() < 3e-3


def test_two_sets_of_rows_merge_to_their_union_in_any_order() -> None:
    rows, keys = rows_at(4, 120, 2), torch.randperm(120, generator=torch.Generator().manual_seed(0))
    whole = LearnedClass.of(rows, keys)
    first, second = LearnedClass.of(rows[:70], keys[:70]), LearnedClass.of(rows[70:], keys[70:])
    for merged in (first.merged(second), second.merged(first)):
        assert_allclose(merged.mean, whole.mean, rtol=1e-12)
        assert torch.equal(merged.kept, whole.kept)


def test_a_single_row_makes_a_class() -> None:
    means, held_out, labels = known()
    found, _ = readout(means, [learned_at(6, 1, 2)], held_out, labels)
    assert found.logits(rows_at(6, 200, 2)).argmax(-1).eq(2).float().mean() > 0.7
