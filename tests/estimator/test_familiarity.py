"""Estimators remember the domain of their table: what they notice, what they promise, when they cannot."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import totalcal
from totalcal.errors import DomainError
from totalcal.estimator import ETPClassifier, SoftmaxClassifier

QUICK = {"max_epochs": 15, "learning_rate": 1e-2, "hidden": (16,), "draws": 3, "random_state": 0}


def table_of(seed, rows):
    """Two classes, three numbers that go together, and a category in three columns of 0 and 1."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(2, size=rows)
    size = chance.normal(size=rows) + 2 * labels
    numbers = np.stack([size, 2 * size + chance.normal(size=rows), chance.normal(size=rows)], axis=1)
    return np.hstack([numbers, np.eye(4)[chance.integers(3, size=rows)]]), labels


@pytest.fixture(scope="module")
def fitted():
    return ETPClassifier(**QUICK).fit(*table_of(0, 1200))


def scaled(table):
    return np.hstack([10 * table[:, :1], table[:, 1:]])


def unseen_category(table):
    return np.hstack([table[:, :3], np.tile([0.0, 0, 0, 1], (len(table), 1))])


def another_table(table):
    return np.random.default_rng(9).uniform(5, 20, table.shape)


def aurocs(model, shifted):
    table, _ = table_of(1, 500)
    both = model.predict_distribution(np.concatenate([table, shifted(table)]))
    is_shifted = np.repeat([0, 1], 500)
    return roc_auc_score(is_shifted, both.unfamiliarity), roc_auc_score(is_shifted, both.entropy)


@pytest.mark.parametrize("shifted", [scaled, unseen_category])
def test_a_shifted_table_is_noticed_where_entropy_does_not(fitted, shifted):
    familiarity, entropy = aurocs(fitted, shifted)
    assert familiarity > 0.95
    assert entropy < 0.7


def test_rows_of_another_table_are_noticed(fitted):
    assert aurocs(fitted, another_table)[0] > 0.99


def test_the_false_alarm_rate_holds_over_fits():
    rates = []
    for seed in range(8):
        model = SoftmaxClassifier(**QUICK | {"max_epochs": 3}).fit(*table_of(10 + seed, 600))
        rates.append(np.mean(model.predict_familiarity(table_of(100 + seed, 1000)[0]) <= 0.1))
    assert np.mean(rates) < 0.1 + 3 * np.std(rates) / len(rates) ** 0.5


def test_it_goes_through_pickle_and_files(fitted, tmp_path):
    table = scaled(table_of(2, 40)[0])
    expected = fitted.predict_familiarity(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_familiarity(table), expected)
    fitted.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal").predict(table)
    np.testing.assert_array_equal(again.familiarity, expected)


@pytest.mark.parametrize("without", [{"remember": False}, {"patience": None}, {"validation_fraction": 0.05}])
def test_without_a_memory_it_says_what_to_do(without):
    model = SoftmaxClassifier(**QUICK | {"max_epochs": 1} | without).fit(*table_of(0, 600))
    with pytest.raises(DomainError, match="validation_fraction"):
        model.predict_familiarity(table_of(1, 5)[0])


def test_more_training_ends_the_memory(fitted):
    model = pickle.loads(pickle.dumps(fitted)).partial_fit(*table_of(3, 100))
    with pytest.raises(DomainError):
        model.predict_familiarity(table_of(1, 5)[0])
