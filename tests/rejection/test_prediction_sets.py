"""Sets of classes that hold the true one as often as promised."""

import json

import numpy as np
import pytest
import torch

from totalcal.errors import GateError, UnknownNameError
from totalcal.rejection.predictions import PredictionSets, cumulated
from totalcal.types import PointMass, Predictive, Sampling


def predictions(rows: int, classes: int, seed: int, ties: bool = False) -> tuple[Predictive, np.ndarray]:
    """A model that is wrong about its own uncertainty: labels come from softmax of half of its logits."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    logits = logits.round() if ties else logits
    labels = torch.multinomial((logits / 2).softmax(-1), 1, generator=generator).flatten()
    return Predictive(PointMass(logits[None])), labels.numpy()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("method", ["aps", "split"])
@pytest.mark.parametrize(("held_out", "coverage"), [(19, 0.9), (200, 0.9), (200, 0.6)])
def test_sets_cover_as_often_as_promised_at_any_size(method, held_out, coverage, ties):
    covered = []
    for seed in range(300):
        prediction, labels = predictions(held_out + 20, 5, seed, ties)
        logits = prediction.belief.logits
        sets = PredictionSets.fitted(
            Predictive(PointMass(logits[:, :held_out])), labels[:held_out], coverage, method
        )
        inside = sets(Predictive(PointMass(logits[:, held_out:])))
        covered.append(inside[np.arange(20), labels[held_out:]].mean())
    spread = np.std(covered) / np.sqrt(len(covered))
    assert np.mean(covered) >= coverage - 4 * spread
    if method == "split" and not ties and held_out == 200:
        assert np.mean(covered) <= coverage + 0.06  # it does not promise little by keeping everything


def test_cumulated_scores_agree_with_a_loop():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(6), size=50)
    brute = [[sum(p for p in row if p >= each) for each in row] for row in probabilities]
    np.testing.assert_allclose(cumulated(probabilities), brute, rtol=1e-12)


def test_a_surer_row_has_a_smaller_set():
    prediction, labels = predictions(500, 5, 0)
    sizes = PredictionSets.fitted(prediction, labels, 0.9, "aps")(prediction).sum(1)
    assert np.corrcoef(sizes, prediction.entropy)[0, 1] > 0.5
    assert sizes.min() >= 1


def test_other_draws_and_too_few_rows_are_refused():
    prediction, labels = predictions(5, 3, 0)
    with pytest.raises(GateError, match="at least 9 held-out rows"):
        PredictionSets.fitted(prediction, labels, 0.9)
    with pytest.raises(UnknownNameError, match="aps"):
        PredictionSets.fitted(prediction, labels, 0.5, "raps")
    sets = PredictionSets.fitted(prediction, labels, 0.5)
    with pytest.raises(GateError, match="fit the sets again"):
        sets(Predictive(prediction.belief, Sampling(10, 0, True)))


def test_draws_of_each_call_are_refused():
    prediction, labels = predictions(50, 3, 0)
    with pytest.raises(GateError, match="makes anew"):
        PredictionSets.fitted(Predictive(prediction.belief, Sampling(10)), labels)


def test_sets_go_through_json():
    prediction, labels = predictions(50, 3, 0)
    sets = PredictionSets.fitted(Predictive(prediction.belief, Sampling(10, 3, True)), labels)
    assert PredictionSets.from_json(json.loads(json.dumps(sets.as_json()))) == sets
