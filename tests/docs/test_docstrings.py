"""What a user calls says what it takes and gives, and shows it: an API reference is made from it."""

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sklearn.exceptions

import totalcal
from totalcal import baselines, data, errors, registry, scores
from totalcal.scores.evaluate import evaluate_files

SOURCE = Path(totalcal.__file__).parent

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
    "export": totalcal.export,
    **{
        f"TuringProcess.{name}": getattr(totalcal.TuringProcess, name)
        for name in ("encode", "absorb", "memorise", "loss_terms", "log_joint", "given")
    },
    "TuringProcess.predict": totalcal.TuringProcess.predict,
    "TuringProcess.predict_shared": totalcal.TuringProcess.predict_shared,
    "Predictive.decompose": totalcal.Predictive.decompose,
    "Model.predict": totalcal.Model.predict,
    "Thumbnails.of": totalcal.Thumbnails.of,
    "Gate.fit": totalcal.Gate.fit,
    "Gate.fitted": totalcal.Gate.fitted,
    "Gate.decide": totalcal.Gate.decide,
    "Monitor.start": totalcal.Monitor.start,
    "Monitor.update": totalcal.Monitor.update,
    "PredictionSets.fitted": totalcal.PredictionSets.fitted,
    "data.from_image_folder": data.from_image_folder,
    "data.from_table": data.from_table,
    "data.from_npz": data.from_npz,
    "evaluate_files": evaluate_files,
    "from_arrays": scores.from_arrays,
    "from_module": scores.from_module,
    "from_sklearn": scores.from_sklearn,
    "temperature_scaled": baselines.temperature_scaled,
    **{
        f"ETPClassifier.{name}": getattr(totalcal.ETPClassifier, name)
        for name in (
            "fit",
            "partial_fit",
            "predict_proba",
            "predict_distribution",
            "predict_uncertainty",
            "predict_familiarity",
        )
    },
}
NEVER_RAISES = {"Predictive.decompose"}
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
    assert "\n    >>> " in text.partition("\nExample:")[2]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NEVER_RAISES))
def test_an_entry_point_says_what_it_raises(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    described = text.partition("\nRaises:\n")[2].partition("\n\n")[0]
    listed = [
        word
        for entry in re.findall(r"^ {4}(\w[\w, ]*):", described, re.MULTILINE)
        for word in entry.split(", ")
    ]
    assert listed
    for word in listed:
        homes = (errors, builtins, sklearn.exceptions)
        assert any(issubclass(getattr(home, word, type(None)), Exception) for home in homes), word


def described_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Those that say what they take, with their place."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "Args:" in (ast.get_docstring(node) or ""):
                yield f"{file.relative_to(SOURCE)}: {node.name}", node


def test_whoever_describes_arguments_describes_every_error_of_ours() -> None:
    missing = [
        f"{place} does not say that it raises {error}"
        for place, node in described_functions()
        for error in {
            ast.unparse(each.exc.func)
            for each in ast.walk(node)
            if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)
        }
        if hasattr(errors, error) and error not in (ast.get_docstring(node) or "").partition("Raises:")[2]
    ]
    assert missing == []


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_entry_says_what_it_is_made_of_and_shows_it(name: str) -> None:
    text = inspect.getdoc(CLASSES[name]) or ""
    assert re.search(r"^(Args|Attributes):$", text, re.MULTILINE)
    assert ">>> " in text
