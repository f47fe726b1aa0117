"""Predictions that a gate can be fitted on: how any model is asked for them, and which of them are steady."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from totalcal.errors import GateError, InputError, LabelError
from totalcal.scores.arrays import plain
from totalcal.scores.blocks import Rows, blocks
from totalcal.types import DETERMINISTIC, Predictive, Sampling

Labels = npt.NDArray[Any]


def predict_like(model: Any, inputs: Any, sampling: Sampling) -> Predictive:
    """Predictions of any model with these draws, where it can share draws among rows; else with its own.

    An external predictor that draws for itself gets the number of draws, and never a seed: the same seed for
    each call would give the first rows of all calls the same draws.
    """
    if hasattr(model, "predict_distribution"):  # an estimator shares its draws among rows
        prediction = model.predict_distribution(inputs)
    elif hasattr(model, "predict_shared"):
        prediction = model.predict_shared(inputs, draws=sampling.draws, seed=sampling.seed or 0)
    elif hasattr(model, "predict"):
        prediction = model.predict(inputs, draws=sampling.draws or 1)
    else:
        prediction = None
    if not isinstance(prediction, Predictive):
        raise InputError(
            f"a gate needs a model whose `predict` gives a Predictive, but a {type(model).__name__} came. "
            "Wrap it: from_module(module, kind) or from_sklearn(classifier) of totalcal.scores."
        )
    return prediction


def sampling_of(prediction: Predictive) -> Sampling:
    """How a prediction was made; one of unknown making with a single draw counts as deterministic."""
    if prediction.sampling is not None:
        return prediction.sampling
    return Sampling(prediction.draws) if prediction.draws > 1 else DETERMINISTIC


def steady_sampling(prediction: Predictive) -> Sampling:
    """The sampling of predictions that are the same function of each row, or a refusal."""
    found = sampling_of(prediction)
    if prediction.sampling is not None and found.draws and found.seed is None:
        raise GateError(
            f"these are {in_words(found)}: rows of one call may share draws that the next call makes anew, "
            "so new rows are not like the held-out ones, and no promise would hold. Take Gate.fit(model, "
            "held_out, labels), or predictions of model.predict_shared(inputs, draws, seed=0)."
        )
    return found


def in_words(sampling: Sampling) -> str:
    """What a sampling is, for messages and summaries."""
    if sampling.draws == 0:
        return "predictions without draws"
    if sampling.draws == "moments":
        return "predictions by moments"
    if sampling.seed is None:
        return f"predictions with {sampling.draws} draws of their own in each call"
    return f"predictions with {sampling.draws} draws that all rows share (seed {sampling.seed})"


def labelled_blocks(model: Any, held_out: Rows, labels: Any, size: int) -> Iterator[tuple[Any, Labels]]:
    """Inputs in blocks, with their labels as class numbers; an estimator takes its table whole."""
    names = _class_names(model)
    if hasattr(model, "predict_distribution"):
        table, given = (held_out, labels) if labels is not None else held_out
        yield table, class_numbers(given, names)
        return
    paired = held_out if labels is None else (held_out, class_numbers(labels, names))
    for inputs, truth in blocks(paired, size):
        if truth is None:
            raise InputError(
                "a gate is fitted on labels, and the held-out set has none. Give Gate.fit(model, inputs, "
                "labels), or batches of (inputs, labels)."
            )
        yield inputs, plain(truth)


def class_numbers(labels: Any, names: Sequence[Any] | None) -> Labels:
    """The place of each label among the names of the classes; without names labels are numbers already.

    >>> class_numbers(["dog", "cat"], ("cat", "dog"))
    array([1, 0])
    """
    given = plain(labels)
    if names is None:
        return given
    places = {name: place for place, name in enumerate(names)}
    unknown = [label for label in given.tolist() if label not in places]
    if unknown:
        raise LabelError(
            f"the label {unknown[0]!r} is none of the model's {len(names)} classes: "
            f"{', '.join(map(repr, list(places)[:5]))}{', …' if len(names) > 5 else ''}."
        )
    return np.array([places[label] for label in given.tolist()])


def _class_names(model: Any) -> list[Any] | None:
    """The names that an estimator (`classes_`) or a saved model (`classes`) has for its classes."""
    names = getattr(model, "classes_", getattr(model, "classes", None))
    return plain(names).tolist() if isinstance(names, np.ndarray | tuple) else None
