"""A model file as a container: a zip of two or three members, stored as they are; what it holds in words.

Knows no torch. Nothing is unpacked to disk, nothing is run, nothing is compressed, so that no small file
becomes a large one in memory. The zip's own checksums find damage.
"""

import hashlib
import json
import math
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, deserialize

from totalcal.errors import InputError, ModelFileError, UnreadableFileError
from totalcal.files.reading import open_regular, parse_json
from totalcal.files.schema import check_settings
from totalcal.files.whole_files import whole_file

FORMAT = 1
LARGEST = 4 * 2**30
_LARGEST_DESCRIPTION = 4 * 2**20
_DESCRIPTION, _TENSORS, _STEPS = "description.json", "tensors.safetensors", "steps.skops"
PROGRAMS = (".onnx", ".pt2")
_SHORT, _LEAST = 16, 8  # hexadecimal digits of a digest: shown, and needed to name it
_NOT_OF_PREDICTIONS = frozenset({"format", "versions", "scores", "monitor", "summary", "hooks"})
_EARLIEST_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


class Container(NamedTuple):
    """What a file holds: a description of plain values, tensors in the format of safetensors, and, where
    there are any, steps of scikit-learn in that of skops.
    """

    description: dict[str, Any]
    tensors: bytes
    steps: bytes | None = None

    @property
    def digest(self) -> str:
        """SHA-256, shortened, of all that predictions follow from.

        It names a model: its file, its export and its service have the same, wherever they were made.
        """
        described = {
            name: value for name, value in self.description.items() if name not in _NOT_OF_PREDICTIONS
        }
        found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
        found.update(self.tensors)
        found.update(self.steps or b"")
        return found.hexdigest()[:_SHORT]


def write_container(path: Path, content: Container) -> None:
    """Write a file, or leave the old one as it was."""
    text = json.dumps({**content.description, "format": FORMAT}, allow_nan=False, indent=1)
    try:
        parse_json(text, "its description")  # what would be refused is not written
    except UnreadableFileError as error:
        raise InputError(f"no file can hold all names of this model: {error}") from error
    members = {_DESCRIPTION: text.encode(), _TENSORS: content.tensors}
    if content.steps is not None:
        members[_STEPS] = content.steps
    with whole_file(path) as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST_DATE), member)


def read_container(path: Path, largest: int = LARGEST) -> Container:
    """Read a file of at most `largest` bytes, or say what is wrong with it."""
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}.")
    if path.suffix in PROGRAMS:
        raise ModelFileError(
            f"{path} is an exported program, which totalcal predict runs. All else takes the file of "
            "totalcal.save that it was made from."
        )
    if path.stat().st_size > largest:
        raise ModelFileError(
            f"{path} has {path.stat().st_size} bytes, more than the {largest} that are read. "
            "If you trust it, load it with a larger `largest`."
        )
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            _check_members(path, archive.infolist())
            description = _parsed(path, archive.read(_DESCRIPTION))
            _check_format(path, description)
            check_settings(description)
            steps = archive.read(_STEPS) if _STEPS in archive.namelist() else None
            return Container(description, archive.read(_TENSORS), steps)
    except ModelFileError as error:
        raise error if str(path) in str(error) else ModelFileError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
        raise ModelFileError(
            f"{path} is damaged, or not a model file of totalcal ({error}). Copy or save it again."
        ) from error


def check_digest(found: str, expected: str | None, where: object) -> None:
    """Whether a model is the one that was expected, by its digest or the beginning of it.

    Raises:
        InputError: If what is expected is too short to name a model.
        ModelFileError: If it is another model.
    """
    wanted = (expected or found).lower()
    if len(wanted) < _LEAST:
        raise InputError(
            f"a digest has {_LEAST} digits or more, not {expected!r}: totalcal inspect shows it."
        )
    if not found.startswith(wanted):
        raise ModelFileError(f"{where} holds the model {found}, and {expected} was expected.")


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    found = sorted(member.filename for member in members)
    if found not in ([_DESCRIPTION, _TENSORS], [_DESCRIPTION, _STEPS, _TENSORS]):
        names = ", ".join(member.filename[:40] for member in members[:5])
        raise ModelFileError(
            f"{path} should hold {_DESCRIPTION} and {_TENSORS}, but holds {len(members)} members ({names}). "
            "It is not a model file of totalcal."
        )
    for member in members:
        limit = _LARGEST_DESCRIPTION if member.filename == _DESCRIPTION else path.stat().st_size
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > limit:
            raise ModelFileError(
                f"{member.filename} in {path} is compressed or claims {member.file_size} bytes, where "
                f"at most {limit} stored ones are expected. totalcal did not write this file: do not use it."
            )


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = parse_json(text.decode(), f"the description in {path}")
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"the description in {path} is a {type(content).__name__}, not an object.")
    return content


def _check_format(path: Path, description: dict[str, Any]) -> None:
    found = description.get("format")
    if not isinstance(found, int):
        raise ModelFileError(f"{path} does not say its format: it is not a model file of totalcal.")
    if found != FORMAT:
        raise ModelFileError(
            f"{path} has format {found}, and this version of totalcal reads format {FORMAT}: use the version "
            "that wrote it."
        )


def summary(path: Path) -> list[tuple[str, str]]:
    """Pairs of a heading and what stands under it; reads no weights into a model."""
    if path.suffix in PROGRAMS:
        from totalcal.files.predicting.exported import open_exported

        return open_exported(path).description.summary()
    content = read_container(path)
    description, tensors = content.description, content.tensors
    try:
        shapes = {name: entry["shape"] for name, entry in deserialize(tensors)}
        return [
            ("digest", content.digest),
            ("model", _model(description)),
            ("backbone", _backbone(description["recipe"])),
            ("weights", _weights(shapes)),
            ("classes", _classes(description)),
            ("steps", _steps(description["steps"])),
            ("inputs", _inputs(description["preprocessing"])),
            ("domain", _domain(description["domain"])),
            ("retained", _retained(description, shapes)),
            *_gate(description["gate"]),
            ("sets", _sets(description["sets"])),
            ("monitor", _monitor(description["monitor"], description["domain"])),
            ("scores", _scores(description["scores"])),
            ("written by", _listed(description["versions"])),
        ]
    except (KeyError, TypeError, AttributeError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"the description in {path} is not as it should be: {error!r}.") from error


def _model(description: dict[str, Any]) -> str:
    recipe = description["recipe"]
    if recipe is None:
        reason = description["by_hand"]
        return f"with parts of your own{f' ({reason})' if reason else ''}: hand it over, load(path, model=…)"
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


def _steps(steps: dict[str, Any] | None) -> str:
    if steps is None:
        return "none before the model"
    columns = steps["columns"] or []
    taken = f" of {', '.join(f'{name} ({kind})' for name, kind in columns)}" if columns else ""
    return f"{', '.join(steps['names'])}{taken}"


def _inputs(preprocessing: dict[str, Any] | None) -> str:
    if preprocessing is None:
        return "tensors as they were in training (no preprocessing)"
    columns = preprocessing["columns"]
    named = "" if columns is None else f": {', '.join(columns)}"
    steps = preprocessing["pictures"]
    brought = "cropped" if steps and steps["crop"] else "stretched"
    made = "" if steps is None else f", from pictures {brought} to that size"
    return f"rows of shape {tuple(preprocessing['shape'])}{made}, standardised{named}"


def _domain(domain: dict[str, Any] | None) -> str:
    if domain is None:
        return "no memory of it: load, then remember(model, train, held_out)"
    layers = ", ".join(tap["name"] or "the net" for tap in domain["taps"])
    learned = ", ".join(each["name"] for each in domain["sets"])
    return f"remembered by {layers}" + (f"; learned since: {learned}" if learned else "")


def _retained(description: dict[str, Any], shapes: dict[str, list[int]]) -> str:
    """What of the data is in the file, beside weights and sums over all rows."""

    def rows(name: str) -> int:
        return shapes.get(name, [0])[0]

    found = []
    if domain := description["domain"]:
        features = (
            "features" if all(tap["name"] != "inputs" for tap in domain["taps"]) else "inputs and features"
        )
        found.append(
            f"means of the {features} of {rows('model/domain.centres')} classes and of "
            f"{rows('model/domain.prototypes') + rows('model/domain.tokens')} groups of like rows"
        )
        learned = sum(rows(f"model/domain.sets.{place}.kept") for place in range(len(domain["sets"])))
        if kept := rows("model/domain.held_out") + learned:
            found.append(f"{features} of {kept} single rows, by which it learns")
        found.append(f"scores of {shapes['model/domain.calibration'][-1]} held-out rows")
    if description["steps"] is not None or description["preprocessing"] is not None:
        found.append("what its steps learned, such as means of columns and words")
    context = rows("context/labels")
    found.append(f"{context} rows as they are, from which it predicts" if context else "no row as it is")
    return "; ".join(found)


def _gate(gate: dict[str, Any] | None) -> list[tuple[str, str]]:
    if gate is None:
        return [("gate", "none: every prediction is accepted")]
    bars = [f"{bar['score']} {_limit(bar)}: {bar['verdict']}" for bar in gate["bars"]]
    rates = gate["on_held_out"]
    price = (
        f"accepts {rates['coverage']:.1%} of {rates['rows']} held-out rows, "
        f"error {rates['error_before']:.2%} → {rates['error_after']:.2%}"
    )
    return [
        ("gate", "; ".join(bars)),
        ("fitted on", _sampling(gate["sampling"])),
        ("promise", gate["promise"]),
        ("cost", price),
    ]


def _limit(bar: dict[str, Any]) -> str:
    if bar["by_class"]:
        return "by predicted class"
    return "without limit" if bar["threshold"] is None else f"{bar['threshold']:.4g}"


def _sampling(sampling: dict[str, Any]) -> str:
    if sampling["draws"] == 0:
        return "predictions without draws"
    if sampling["draws"] == "moments":
        return "predictions by moments"
    return f"predictions with {sampling['draws']} draws of seed {sampling['seed']}"


def _sets(sets: dict[str, Any] | None) -> str:
    if sets is None:
        return "none: prediction.set() needs PredictionSets"
    return f"{sets['method']}, coverage {sets['coverage']:g}, from {len(sets['scores'])} held-out rows"


def _monitor(monitor: dict[str, Any] | None, domain: dict[str, Any] | None) -> str:
    if monitor is None and domain and domain["sets"]:
        return "none, since the scores of a model that has learned come about in another way"
    if monitor is None:
        return "none: totalcal watch needs a Monitor"
    return f"of {', '.join(monitor['detectors'])}; {monitor['rows']} rows of a stream so far"


def _scores(scores: dict[str, float] | None) -> str:
    return _listed({name: f"{value:.4g}" for name, value in scores.items()}) if scores else "none were saved"


def _listed(entries: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in entries.items())


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
