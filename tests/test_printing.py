"""Predictions as people read them."""

import numpy as np
import pytest
import torch

from totalcal.decisions.deciding import HeldOut, decide
from totalcal.errors import GateError
from totalcal.types import PointMass, Predictive


@pytest.fixture
def prediction():
    logits = torch.randn(1, 120, 3, generator=torch.Generator().manual_seed(0))
    bare = Predictive(PointMass(logits))
    labels = bare.probabilities.argmax(1).numpy()
    gate = decide(None, HeldOut(bare, labels, bare, labels, range(3)), 0.05, 0.05)
    return Predictive(PointMass(logits), gate=gate, classes=("<cat>", "dog", "eel"))


def test_labels_are_names_and_without_names_numbers(prediction):
    places = prediction.probabilities.argmax(1).numpy()
    assert (prediction.labels == np.array(["<cat>", "dog", "eel"])[places]).all()
    assert (Predictive(prediction.belief).labels == places).all()


def test_the_first_of_the_most_probable_classes_is_the_label_with_its_confidence(prediction):
    for row, best in enumerate(prediction.top(2)):
        assert best[0] == (prediction.labels[row], pytest.approx(float(prediction.confidence[row])))
        assert best[0][1] >= best[1][1]


def test_it_prints_itself_in_a_few_lines(prediction):
    assert repr(prediction).startswith("120 rows, 3 classes")
    assert len(repr(prediction).splitlines()) <= 5
    assert "accept" in repr(prediction)


def test_a_frame_has_a_row_for_each_input_and_says_why(prediction):
    frame = prediction.to_frame()
    assert list(frame["decision"]) == prediction.decision
    assert frame.loc[frame["decision"] == "ask", "why"].str.contains("entropy").all()


def test_a_notebook_shows_the_first_rows_escaped(prediction):
    page = prediction._repr_html_()
    assert "<cat>" not in page
    assert page.count("<tr>") == 11


def test_a_prediction_that_nothing_decides_about_says_what_to_do(prediction):
    with pytest.raises(GateError, match="calibrate"):
        _ = Predictive(prediction.belief).decision


def test_joined_predictions_keep_names_and_decisions(prediction):
    both = Predictive.joined([prediction, prediction])
    assert both.decision == prediction.decision * 2
    assert list(both.labels) == [*prediction.labels, *prediction.labels]
