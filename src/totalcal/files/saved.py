"""A model with all that its predictions need, to a file and back."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from totalcal import __version__
from totalcal.errors import InputError, ModelFileError, TotalcalError
from totalcal.files import tensors
from totalcal.files.container import LARGEST, Container, read_container, write_container
from totalcal.files.preprocessing import Preprocessing
from totalcal.files.recipe import Recipe, recipe_of
from totalcal.process import TuringProcess
from totalcal.rejection import Gate
from totalcal.types import Batch, Predictive

ClassName = str | int | float | bool


@dataclass(frozen=True)
class SavedModel:
    """What a file holds, ready to use."""

    model: TuringProcess
    gate: Gate | None = None
    classes: tuple[ClassName, ...] | None = None
    preprocessing: Preprocessing | None = None
    context: Batch | None = None
    scores: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.classes is not None and len(self.classes) != self.model.num_classes:
            raise InputError(
                f"the model has {self.model.num_classes} classes, but {len(self.classes)} names came."
            )

    def predict(self, rows: npt.ArrayLike, draws: int = 10) -> Predictive:
        """The predictive distribution of rows as the user has them; the same for any order and split."""
        return self.model.eval().predict_shared(self._inputs(rows), draws, self.context)

    def _inputs(self, rows: npt.ArrayLike) -> Tensor:
        if self.preprocessing is None:
            return torch.as_tensor(rows)
        precision = next((weight.dtype for weight in self.model.parameters()), torch.float32)
        return self.preprocessing(rows, precision)


def save(
    model: TuringProcess,
    path: str | os.PathLike[str],
    *,
    gate: Gate | None = None,
    classes: Sequence[ClassName] | None = None,
    preprocessing: Preprocessing | None = None,
    context: Batch | None = None,
    scores: Mapping[str, float] | None = None,
) -> None:
    """Write a model and what goes with it as one file, which `load` reads without running any code.

    A model of the family around one of our backbones is made again from the file alone. A backbone of your
    own is handed over when the file is loaded, and so is the whole model if its parts are your own; the file
    says which. `context` holds the rows, after preprocessing, that a model such as `anp` predicts from;
    `scores` those on held-out data.
    """
    names = None if classes is None else tuple(classes)
    whole = SavedModel(model, gate, names, preprocessing, context, scores)
    write_container(Path(path), Container(_description(whole), tensors.packed(_tensor_groups(whole))))


def load(
    path: str | os.PathLike[str],
    *,
    backbone: nn.Module | None = None,
    model: TuringProcess | None = None,
    largest: int = LARGEST,
) -> SavedModel:
    """Read what `save` wrote; a module of your own is given here, built as it was, and gets the weights.

    `backbone` is one within a model of the family, wrapped or not; `model` one of your own parts.
    """
    content = read_container(Path(path), largest)
    try:
        groups = tensors.unpacked(content.tensors)
        recipe = _optional(Recipe.from_json, content.description["recipe"])
        return SavedModel(
            model=_filled(recipe, backbone, model, groups["model"]),
            gate=_optional(Gate.from_json, content.description["gate"]),
            classes=_optional(tuple, content.description["classes"]),
            preprocessing=_preprocessing(content.description["preprocessing"], groups),
            context=Batch(**groups["context"]) if "context" in groups else None,
            scores=_optional(dict, content.description["scores"]),
        )
    except TotalcalError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ModelFileError(f"the description in {path} is not as it should be: {error!r}.") from error


def _filled(
    recipe: Recipe | None,
    backbone: nn.Module | None,
    model: TuringProcess | None,
    state: Mapping[str, Tensor],
) -> TuringProcess:
    """The model with the file's weights in it."""
    if model is not None:
        return tensors.filled(model, state)
    if recipe is None:
        raise ModelFileError(
            "its model has parts of your own: build it as it was, and hand it over: load(path, model=…)."
        )
    return tensors.built(recipe, backbone, state)


def _description(saved: SavedModel) -> dict[str, Any]:
    """All that is not a tensor, as plain values."""
    given, recipe = saved.preprocessing, recipe_of(saved.model)
    return {
        "versions": {
            "totalcal": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "num_classes": saved.model.num_classes,
        "recipe": recipe and recipe.as_json(),
        "classes": saved.classes,
        "gate": saved.gate and saved.gate.as_json(),
        "preprocessing": given and {"shape": given.shape, "columns": given.columns},
        "scores": saved.scores and dict(saved.scores),
    }


def _tensor_groups(saved: SavedModel) -> dict[str, Mapping[str, Tensor]]:
    groups: dict[str, Mapping[str, Tensor]] = {"model": saved.model.state_dict()}
    if saved.preprocessing is not None:
        groups["preprocessing"] = {"mean": saved.preprocessing.mean, "scale": saved.preprocessing.scale}
    if saved.context is not None:
        groups["context"] = saved.context._asdict()
    return groups


def _preprocessing(
    content: Mapping[str, Any] | None, groups: Mapping[str, Mapping[str, Tensor]]
) -> Preprocessing | None:
    if content is None:
        return None
    mean, scale = groups["preprocessing"]["mean"], groups["preprocessing"]["scale"]
    return Preprocessing(tuple(content["shape"]), mean, scale, _optional(tuple, content["columns"]))


def _optional(make: Any, content: Any) -> Any:
    return None if content is None else make(content)
