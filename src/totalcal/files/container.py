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
            found = sorted(archive.namelist())
            if found not in ([_DESCRIPTION, _TENSORS], [_DESCRIPTION, _STEPS, _TENSORS]):
                raise ModelFileError(
                    f"{path} should hold {_DESCRIPTION} and {_TENSORS}, but holds {len(found)} members "
                    f"({', '.join(name[:40] for name in found[:5])}). It is not a model file of totalcal."
                )
            for member in archive.infolist():
                limit = _LARGEST_DESCRIPTION if member.filename == _DESCRIPTION else path.stat().st_size
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > limit:
                    raise ModelFileError(
                        f"{member.filename} in {path} is compressed or claims {member.file_size} bytes, "
                        f"where at most {limit} stored ones are expected. totalcal did not write this file: "
                        "do not use it."
                    )
            description = _described(path, archive.read(_DESCRIPTION))
            steps = archive.read(_STEPS) if _STEPS in found else None
            return Container(description, archive.read(_TENSORS), steps)
    except ModelFileError as error:
        raise error if str(path) in str(error) else ModelFileError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
        raise ModelFileError(
            f"{path} is damaged, or not a model file of totalcal ({error}). Copy or save it again."
        ) from error


def _described(path: Path, text: bytes) -> dict[str, Any]:
    """The description in a file, of this format and of the right kinds."""
    try:
        content = parse_json(text.decode(), f"the description in {path}")
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"the description in {path} is a {type(content).__name__}, not an object.")
    if not isinstance(found := content.get("format"), int):
        raise ModelFileError(f"{path} does not say its format: it is not a model file of totalcal.")
    if found != FORMAT:
        raise ModelFileError(
            f"{path} has format {found}, and this version of totalcal reads format {FORMAT}: use the version "
            "that wrote it."
        )
    check_settings(content)
    return content


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


def summary(path: Path) -> list[tuple[str, str]]:
    """Pairs of a heading and what stands under it; reads no weights into a model."""
    if path.suffix in PROGRAMS:
        from totalcal.files.predicting.exported import open_exported

        return open_exported(path).description.summary()
    content = read_container(path)
    told = content.description
    try:
        recipe, domain, names, steps, sets = (
            told[part] for part in ("recipe", "domain", "classes", "steps", "sets")
        )
        shapes = {name: entry["shape"] for name, entry in deserialize(content.tensors)}
        model = "with parts of your own{}: hand it over, load(path, model=…)"
        backbone = "part of the model that you hand over"
        if recipe is None:
            model = model.format(f" ({told['by_hand']})" if told["by_hand"] else "")
        else:
            model = _call(recipe["model"], {"num_classes": recipe["num_classes"], **recipe["arguments"]})
            backbone = "of your own: hand it over, load(path, backbone=MyNet())"
            if recipe["backbone"] is not None:
                backbone = _call(recipe["backbone"], recipe["backbone_arguments"])
        own = {name: shape for name, shape in shapes.items() if name.startswith("model/")}
        weights = f"{sum(map(math.prod, own.values())):,} numbers in {len(own)} tensors"
        if cells := own.get("model/latent.cells"):
            weights += f", among them a memory of {cells[0]} cells"
        behind = "none before the model"
        if steps is not None:
            taken = ", ".join(f"{name} ({kind})" for name, kind in steps["columns"] or ())
            behind = ", ".join(steps["names"]) + (f" of {taken}" if taken else "")
        given = "none: prediction.set() needs PredictionSets"
        if sets is not None:
            rows = len(sets["scores"])
            given = f"{sets['method']}, coverage {sets['coverage']:g}, from {rows} held-out rows"
        scores = ", ".join(f"{name} {value:.4g}" for name, value in (told["scores"] or {}).items())
        return [
            ("digest", content.digest),
            ("model", model),
            ("backbone", backbone),
            ("weights", weights),
            (
                "classes",
                f"{told['num_classes']}, without names" if names is None else ", ".join(map(str, names)),
            ),
            ("steps", behind),
            ("inputs", _inputs(told["preprocessing"])),
            ("domain", _domain(domain)),
            ("retained", _retained(told, shapes)),
            *_gate(told["gate"]),
            ("sets", given),
            ("monitor", _monitor(told["monitor"], domain)),
            ("scores", scores or "none were saved"),
            ("written by", ", ".join(f"{name} {version}" for name, version in told["versions"].items())),
        ]
    except (KeyError, TypeError, AttributeError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"the description in {path} is not as it should be: {error!r}.") from error


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _inputs(preprocessing: dict[str, Any] | None) -> str:
    if preprocessing is None:
        return "tensors as they were in training (no preprocessing)"
    columns, steps = preprocessing["columns"], preprocessing["pictures"]
    named = "" if columns is None else f": {', '.join(columns)}"
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
        reads_inputs = any(tap["name"] == "inputs" for tap in domain["taps"])
        features = "inputs and features" if reads_inputs else "features"
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
    bars = []
    for bar in gate["bars"]:
        limit = "without limit" if bar["threshold"] is None else f"{bar['threshold']:.4g}"
        bars.append(f"{bar['score']} {'by predicted class' if bar['by_class'] else limit}: {bar['verdict']}")
    rates, draws = gate["on_held_out"], gate["sampling"]["draws"]
    made = f"with {draws} draws of seed {gate['sampling']['seed']}" if draws else "without draws"
    price = (
        f"accepts {rates['coverage']:.1%} of {rates['rows']} held-out rows, "
        f"error {rates['error_before']:.2%} → {rates['error_after']:.2%}"
    )
    return [
        ("gate", "; ".join(bars)),
        ("fitted on", f"predictions {'by moments' if draws == 'moments' else made}"),
        ("promise", gate["promise"]),
        ("cost", price),
    ]


def _monitor(monitor: dict[str, Any] | None, domain: dict[str, Any] | None) -> str:
    if monitor is not None:
        return f"of {', '.join(monitor['detectors'])}; {monitor['rows']} rows of a stream so far"
    if domain and domain["sets"]:
        return "none, since the scores of a model that has learned come about in another way"
    return "none: totalcal watch needs a Monitor"
