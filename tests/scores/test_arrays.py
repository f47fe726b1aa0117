"""Bad input gets a clear error, whatever the score."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from totalcal import scores
from totalcal.errors import InputError, LabelError, ShapeError

OF_PREDICTIONS = [
    scores.error,
    scores.nll,
    scores.brier,
    scores.ece,
    scores.classwise_ece,
    scores.debiased_calibration_error,
    scores.smooth_ece,
    scores.reliability,
]
GOOD = np.array([[0.2, 0.8], [0.6, 0.4]])
BAD = {
    "NaN": ([[np.nan, 1.0], [0.5, 0.5]], [0, 1], InputError, "NaN"),
    "a row that does not sum to 1": ([[0.2, 0.7], [0.5, 0.5]], [0, 1], InputError, "row 0 sums to 0.9"),
    "a negative probability": ([[-0.2, 1.2], [0.5, 0.5]], [0, 1], InputError, "outside of"),
    "logits": ([[3.0, -1.0], [0.5, 0.5]], [0, 1], InputError, "softmax"),
    "a label too high": (GOOD, [0, 2], LabelError, "one of them is 2"),
    "a negative label": (GOOD, [0, -1], LabelError, "one of them is -1"),
    "labels that are fractions": (GOOD, [0.0, 0.5], LabelError, "regression"),
    "no examples": (np.zeros((0, 2)), [], InputError, "empty"),
    "more labels than rows": (GOOD, [0, 1, 1], ShapeError, "2 predictions, but 3 labels"),
    "one-hot labels": (GOOD, [[0, 1], [1, 0]], LabelError, "argmax"),
    "one column": ([[1.0], [1.0]], [0, 0], ShapeError, "two columns"),
    "a vector": ([0.2, 0.8], [0, 1], ShapeError, "examples × classes"),
    "words": ([["a", "b"]], [0], InputError, "real numbers"),
}


@pytest.mark.parametrize("score", OF_PREDICTIONS, ids=lambda score: score.__name__)
@pytest.mark.parametrize(("probabilities", "labels", "error", "words"), BAD.values(), ids=BAD)
def test_bad_predictions_are_refused(score, probabilities, labels, error, words):
    with pytest.raises(error, match=words):
        score(probabilities, labels)


@pytest.mark.parametrize("score", [scores.auroc, scores.aupr_in, scores.aupr_out, scores.fpr_at_tpr])
@pytest.mark.parametrize("inside", [[], [np.nan], [[0.1]]], ids=["empty", "NaN", "matrix"])
def test_bad_rankings_are_refused(score, inside):
    with pytest.raises(InputError, match="in-distribution"):
        score(inside, [0.5])


@pytest.mark.parametrize("score", [scores.aurc, scores.excess_aurc, scores.augrc, scores.operating_points])
@pytest.mark.parametrize(
    ("confidence", "losses"), [([], []), ([0.1, 0.2], [1]), ([np.nan], [0]), ([0.5], [-1]), ([0.5], [np.inf])]
)
def test_bad_selections_are_refused(score, confidence, losses):
    with pytest.raises(InputError):
        score(confidence, losses)


def test_tensors_on_any_road_give_what_arrays_give(predictions):
    probabilities, labels = predictions()
    tensor = torch.tensor(probabilities, requires_grad=True)
    assert scores.nll(tensor, torch.tensor(labels)) == scores.nll(probabilities, labels)
    assert scores.nll(probabilities.tolist(), labels.tolist()) == scores.nll(probabilities, labels)


def test_half_precision_rows_of_a_thousand_classes_pass(predictions):
    probabilities, labels = predictions(classes=1000)
    assert scores.error(probabilities.astype(np.float16), labels) <= 1
    assert scores.error(torch.tensor(probabilities).bfloat16(), labels) <= 1


def test_importing_the_scores_loads_neither_scikit_learn_nor_scipy():
    program = (
        "import sys, totalcal.scores; print([m for m in ('sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
