"""What a user calls says what it takes and gives, and shows it: an API reference is made from it."""

import inspect
import re

import pytest

import totalcal
from totalcal import data, registry, scores

FUNCTIONS = {
    **{name: getattr(totalcal, name) for name in registry.MODELS},
    "train": totalcal.train,
    "fit": totalcal.fit,
    "evaluate": totalcal.evaluate,
    "evaluate_outputs": scores.evaluate_outputs,
    "remember": totalcal.remember,
    "wrap": totalcal.wrap,
    "fit_wrapped": totalcal.fit_wrapped,
    "save": totalcal.save,
    "load": totalcal.load,
    "corrupt": totalcal.corrupt,
    "TuringProcess.predict": totalcal.TuringProcess.predict,
    "TuringProcess.predict_shared": totalcal.TuringProcess.predict_shared,
    "Predictive.decompose": totalcal.Predictive.decompose,
    "Gate.fit": totalcal.Gate.fit,
    "Gate.decide": totalcal.Gate.decide,
    "Monitor.start": totalcal.Monitor.start,
    "PredictionSets.fitted": totalcal.PredictionSets.fitted,
    "data.load": data.load,
    "data.from_image_folder": data.from_image_folder,
    "data.from_table": data.from_table,
    "ETPClassifier.fit": totalcal.ETPClassifier.fit,
    "ETPClassifier.predict_proba": totalcal.ETPClassifier.predict_proba,
}
CLASSES = {
    "ETPClassifier": totalcal.ETPClassifier,
    "Gate": totalcal.Gate,
    "Monitor": totalcal.Monitor,
    "PredictionSets": totalcal.PredictionSets,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_entry_point_names_every_argument_and_what_it_gives(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    arguments = [
        argument.name
        for argument in inspect.signature(FUNCTIONS[name]).parameters.values()
        if argument.name not in ("self", "cls")
    ]
    described = text.partition("Args:")[2].partition("\n\n")[0]
    listed = re.findall(r"^ {4}(\w[\w, ]*):", described, re.MULTILINE)
    assert [word for entry in listed for word in entry.split(", ")] == arguments
    assert "\nReturns:\n" in text
    assert "\n    >>> " in text.partition("\nExample:\n")[2]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_entry_says_what_it_is_made_of_and_shows_it(name: str) -> None:
    text = inspect.getdoc(CLASSES[name]) or ""
    assert re.search(r"^(Args|Attributes):$", text, re.MULTILINE)
    assert ">>> " in text
