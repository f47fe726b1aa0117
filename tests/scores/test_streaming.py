import numpy as np
import pytest
from numpy.testing import assert_allclose

from totalcal import scores
from totalcal.errors import InputError


def run(probabilities, labels, size):
    running = scores.RunningScores()
    for start in range(0, len(labels), size):
        running.update(probabilities[start : start + size], labels[start : start + size])
    return running


@pytest.mark.parametrize("size", [1, 8, 32, 128, 500])
def test_any_batch_size_gives_the_score_of_the_whole(predictions, size):
    probabilities, labels = predictions()
    running = run(probabilities, labels, size)
    whole = [score(probabilities, labels) for score in (scores.error, scores.nll, scores.brier)]
    assert_allclose([running.error, running.nll, running.brier], whole, rtol=1e-12)
    assert_allclose(running.ece.value, scores.ece(probabilities, labels).value, rtol=1e-12)
    assert running.ece.counts == scores.ece(probabilities, labels).counts


def test_two_workers_merge_into_one(predictions):
    probabilities, labels = predictions()
    left, right = run(probabilities[:123], labels[:123], 50), run(probabilities[123:], labels[123:], 7)
    left.merge(right)
    assert left.examples == 500
    assert_allclose(left.nll, scores.nll(probabilities, labels), rtol=1e-12)
    assert_allclose(left.reliability.accuracy, scores.reliability(probabilities, labels).accuracy)


def test_scores_of_other_bins_do_not_merge():
    with pytest.raises(InputError, match="15 bins cannot take in scores of 10"):
        scores.RunningScores(15).merge(scores.RunningScores(10))


@pytest.mark.parametrize("name", ["error", "nll", "brier", "ece", "reliability"])
def test_nothing_seen_is_no_score(name):
    with pytest.raises(InputError, match="no predictions"):
        getattr(scores.RunningScores(), name)


def test_memory_does_not_grow_with_the_examples(predictions):
    import pickle

    probabilities, labels = predictions()
    few, many = scores.RunningScores(), scores.RunningScores()
    few.update(probabilities, labels)
    for _ in range(100):
        many.update(probabilities, labels)
    assert len(pickle.dumps(many)) <= len(pickle.dumps(few)) + 16
    assert np.isclose(many.ece.value, few.ece.value)
