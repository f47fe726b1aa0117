"""What a model file holds, in words; reads no weights into a model and never imports torch."""

import math
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, deserialize

from totalcal.errors import ModelFileError
from totalcal.files.container import read_container


def summary(path: Path) -> list[tuple[str, str]]:
    """Pairs of a heading and what stands under it."""
    description, tensors = read_container(path)
    try:
        shapes = {name: entry["shape"] for name, entry in deserialize(tensors)}
        return [
            ("model", _model(description)),
            ("backbone", _backbone(description["recipe"])),
            ("weights", _weights(shapes)),
            ("classes", _classes(description)),
            ("inputs", _inputs(description["preprocessing"])),
            ("context", f"{shapes['context/labels'][0]} rows" if "context/labels" in shapes else "none"),
            *_gate(description["gate"]),
            ("scores", _scores(description["scores"])),
            ("written by", _listed(description["versions"])),
        ]
    except (KeyError, TypeError, AttributeError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"the description in {path} is not as it should be: {error!r}.") from error


def _model(description: dict[str, Any]) -> str:
    recipe = description["recipe"]
    if recipe is None:
        return "with parts of your own: hand it over, load(path, model=…)"
    return _call(recipe["model"], {"num_classes": recipe["num_classes"], **recipe["arguments"]})


def _backbone(recipe: dict[str, Any] | None) -> str:
    if recipe is None:
        return "part of the model that you hand over"
    if recipe["backbone"] is None:
        return "of your own: hand it over, load(path, backbone=MyNet())"
    return _call(recipe["backbone"], recipe["backbone_arguments"])


def _weights(shapes: dict[str, list[int]]) -> str:
    own = {name: shape for name, shape in shapes.items() if name.startswith("model/")}
    total = sum(math.prod(shape) for shape in own.values())
    cells = own.get("model/latent.cells")
    memory = "" if cells is None else f", among them a memory of {cells[0]} cells"
    return f"{total:,} numbers in {len(own)} tensors{memory}"


def _classes(description: dict[str, Any]) -> str:
    names = description["classes"]
    return f"{description['num_classes']}, without names" if names is None else ", ".join(map(str, names))


def _inputs(preprocessing: dict[str, Any] | None) -> str:
    if preprocessing is None:
        return "tensors as they were in training (no preprocessing)"
    columns = preprocessing["columns"]
    named = "" if columns is None else f": {', '.join(columns)}"
    return f"rows of shape {tuple(preprocessing['shape'])}, standardised{named}"


def _gate(gate: dict[str, Any] | None) -> list[tuple[str, str]]:
    if gate is None:
        return [("gate", "none: every prediction is accepted")]
    bars = [f"{bar['score']} above {bar['threshold']}: {bar['verdict']}" for bar in gate["bars"]]
    cost = gate["cost"]
    price = (
        f"accepts {cost['coverage']:.1%} of {cost['rows']} held-out rows, "
        f"error {cost['error_before']:.2%} → {cost['error_after']:.2%}"
    )
    return [("gate", "; ".join(bars)), ("promise", gate["promise"]), ("cost", price)]


def _scores(scores: dict[str, float] | None) -> str:
    return _listed({name: f"{value:.4g}" for name, value in scores.items()}) if scores else "none were saved"


def _listed(entries: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in entries.items())


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
