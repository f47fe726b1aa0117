"""A model with all that its predictions need, to a file and back."""

import json
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parameter import is_lazy

from totalcal import __version__
from totalcal.calibration.calibrator import TemperatureAndBias
from totalcal.calibration.summary import CalibrationSummary
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.decisions import Gate
from totalcal.decisions.discoveries import Discoveries, check_one_score, discoveries
from totalcal.decisions.monitor import Monitor
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import InputError, LabelError, ModelFileError, TotalcalError, UnknownNameError
from totalcal.files.container import LARGEST, Container, read_container, write_container
from totalcal.files.reading import MOST_AXES
from totalcal.files.recipe import (
    LayerSettings,
    Recipe,
    largest_size,
    recipe_of,
    restore_settings,
    settings_of,
    why_no_recipe,
)
from totalcal.files.schema import check_settings
from totalcal.files.steps import Steps
from totalcal.inputs import Inputs, TensorForm, as_class_numbers, as_inputs, from_named, named, not_finite
from totalcal.memory.domain import Memorised
from totalcal.memory.domain_memory import DomainMemory
from totalcal.models.process import SWAPPING, Context, TuringProcess, as_context, uncompiled
from totalcal.nets import LogProbabilities
from totalcal.origin import hooked, hooks_since
from totalcal.scores.arrays import class_numbers, one_per_row, plain
from totalcal.types import Batch, Draws, Predictive, Sampling

if TYPE_CHECKING:
    from totalcal.report.model_page import ModelReport

ClassName = str | int | float | bool

_SEPARATOR = "/"
_DOMAIN = "domain."
_CALIBRATOR = "calibrator."
_ANOTHER_VERSION = (
    "Call totalcal.remember again and save the model anew, or open the file with the version that wrote it."
)
_ANSWERS_BEFORE = (
    "classes were learned since the model was calibrated: there are no sets of classes, and what is promised "
    'of answers ("ask") no longer holds; what is promised of familiarity ("not my domain") stays'
)
_SELECTION_BEFORE = (
    "something was memorised since the model was calibrated: until it is forgotten, select_unfamiliar rests"
)
_HARMLESS = 10**6  # weights: so many are made without asking
_FEW = 100  # tensors: likewise
_NONSENSE = (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, RuntimeError, MemoryError)
_AS_IT_WAS = "Build the model, or its backbone, exactly as it was when it was saved."
_LARGEST_PROJECTION = 10**8  # numbers: it is not in the file, but drawn from a seed


@dataclass(repr=False, eq=False)
class Model:
    """What a file holds, ready to use."""

    process: TuringProcess
    gate: Gate | None = None
    classes: tuple[ClassName, ...] | None = None
    preprocessing: Preprocessing | None = None
    context: Batch | None = None
    scores: Mapping[str, float] | None = None
    monitor: Monitor | None = None
    steps: Steps | None = None
    sets: PredictionSets | None = None
    summary: CalibrationSummary | None = None
    takes: tuple[TensorForm, ...] | None = None

    def __post_init__(self) -> None:
        if self.classes is None:
            return
        if len(self.classes) != self.process.num_classes:
            raise InputError(
                f"the model has {self.process.num_classes} classes, but got {len(self.classes)} names."
            )
        if len(set(map(str, self.classes))) < len(self.classes):
            raise InputError(
                f"names of classes differ as text, in which answers have them, but got {self.classes!r:.100}."
            )

    def predict(
        self, rows: Any, *, draws: Draws = "auto", seed: int = 0, context: Context | None = None
    ) -> Predictive:
        """The predictive distribution of rows as the user has them; the same for any order and split.

        Args:
            rows: One entry per row, as the preprocessing takes them.
            draws: As in `TuringProcess.predict`. "auto" makes predictions as the gate or else the sets of
                classes need them, or as the model does by itself (`TuringProcess.default_draws`).
            seed: As in `TuringProcess.predict`.
            context: In the place of the one in the file.

        Returns:
            As `TuringProcess.predict`.

        Raises:
            InputError: If the rows cannot be used: not finite, or of another shape.

        Example:
            >>> from totalcal import softmax
            >>> Model(softmax(torch.nn.Linear(4, 3), 3)).predict(torch.zeros(2, 4)).draws
            1
        """
        fitted = self.fitted_sampling
        if draws == "auto" and fitted is not None:
            draws, seed = fitted.draws, seed or fitted.seed or 0
        given, inputs = self.context if context is None else context, self.inputs(rows)
        while True:
            with SWAPPING:
                classes, sets, domain = self.classes, self.valid_sets, self.process.domain
            prediction = self.process.predict(inputs, draws=draws, seed=seed, context=given)
            if self.process.domain is domain:  # else it memorised meanwhile: other names and sets
                return replace(prediction, sets=sets, gate=self.gate, classes=classes)

    def snapshot(self) -> "Model":
        """The model of this moment, on the same weights: what it learns or forgets later, this does not know.

        Files, exports, reports, audits and services are made of one, so that they are of one model whatever
        other threads teach it meanwhile.

        Example:
            >>> from totalcal import softmax
            >>> Model(softmax(torch.nn.Linear(4, 3), 3)).snapshot().process.num_classes
            3
        """
        with SWAPPING:
            return replace(self, process=cast(TuringProcess, uncompiled(self.process)).snapshot())

    def __getstate__(self) -> dict[str, Any]:
        """Of a snapshot: copies are of one model, too, and what they learn, this does not know."""
        return vars(self.snapshot())

    @property
    def valid_sets(self) -> PredictionSets | None:
        """The sets of classes; none while there are classes learned since, of which they know nothing."""
        return None if self.process.domain.num_learned else self.sets

    @property
    def fitted_sampling(self) -> Sampling | None:
        """How the predictions were made that the gate, or else the sets of classes, were fitted on."""
        like = self.gate or self.sets
        return None if like is None else like.sampling

    def select_unfamiliar(self, rows: Any, fdr: float = 0.1) -> Discoveries:
        """Which rows of a batch come from elsewhere, with few false alarms among them.

        Args:
            rows: As the user has them, one entry per row.
            fdr: The share of the selected rows that may be ordinary ones, on average.

        Returns:
            The selected rows, the least familiar first; printed, it says how few could be found.

        Raises:
            GateError: Without a memory, after `memorise`, or with too few held-out rows.

        Example:
            `strange = batch[model.select_unfamiliar(batch, fdr=0.1).rows]`
        """
        now = self.snapshot()
        held_out = check_one_score(now.process.domain)
        return discoveries(plain(now.predict(rows).familiarity), held_out, fdr)

    def memorise(
        self, rows: Any, labels: Any, name: str | None = None, *, then: Callable[[], object] = lambda: None
    ) -> Memorised:
        """Learn from a few labelled rows, without training: new classes, or known ones in a new domain.

        A label that the model does not know is a new class, and predictions have a column for it from now on;
        the answers among the other classes change by one factor. What was promised of rows of the domain
        stays of their familiarity; sets of classes (`Predictive.set`) rest until new classes are
        forgotten. The monitor ends: scores come about in another way from now on.

        Args:
            rows: As the user has them, one entry per row.
            labels: Their classes, by name; by number where classes have no names.
            name: What `forget` drops them by; made of the new classes if not given.
            then: Is called in the same instant in which predictions know what was learned.

        Returns:
            What was learned, what is confused, and what is promised; print it.

        Raises:
            DomainError: The model has no memory (`totalcal.calibrate` gives it one).
            InputError, LabelError: There are too few rows, the name is taken, or a class cannot be told from
                another; the model is as it was.

        Example:
            `print(model.memorise(new_rows, ["bag"] * len(new_rows)))`
        """
        given, names = one_per_row(labels), self.classes
        if names is None and given.dtype.kind not in "biuf":
            raise LabelError(
                "the classes of this model have no names, so that labels are numbers: the first new class is "
                f"{self.process.num_classes}. calibrate(…, classes=[…]) gives names."
            )
        if names is not None:
            new = sorted(set(given.tolist()) - set(names), key=str)
            alike = set(map(str, new)) & set(map(str, names))
            if alike:
                raise LabelError(f"{alike.pop()} is a class already, but of another type than these labels.")
            names += tuple(new)

        def rename(learned: Memorised) -> None:
            self.classes, self.monitor = names, None
            then()

        return self.process.memorise(
            self.inputs(rows),
            as_class_numbers(torch.as_tensor(class_numbers(given, names))),
            name or ", ".join(map(str, (names or ())[len(self.classes or ()) :])) or None,
            names=names,
            then=rename,
        )

    def forget(self, name: str) -> None:
        """Drop what was memorised under a name: the model is as if it had never been, but for its monitor.

        Args:
            name: As in `memorise`.

        Raises:
            UnknownNameError: Nothing has this name.
        """

        def then(gone: tuple[int, ...]) -> None:
            self.monitor = None
            if self.classes is not None:
                self.classes = tuple(each for place, each in enumerate(self.classes) if place not in gone)

        self.process.forget(name, then=then)

    def report(self, test: Any, ood: Mapping[str, Any] | None = None) -> "ModelReport":
        """Judge the model on test rows and on rows of other domains, before and after calibration.

        Args:
            test: (inputs, labels) that nothing was trained, fitted or chosen on.
            ood: Out-of-distribution inputs by name.

        Returns:
            The report; `save("report.html")` writes a page, `save("card.md")` the model card alone.

        Example:
            `model.report(test, ood={"letters": letters}).save("report.html")`
        """
        from totalcal.calibration.reporting import report_on

        return report_on(self.snapshot(), test, ood)

    @property
    def digest(self) -> str:
        """What names this model: sixteen digits that its file, its export and its service have in common."""
        return self.content().digest

    def content(self) -> Container:
        """What a file holds of it."""
        packed, now = None if self.steps is None else self.steps.packed(), self.snapshot()
        return Container(_description(now), _tensors(now), packed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it as one file, which `totalcal.load` reads: `totalcal.save`."""
        now = self.snapshot()
        if (broken := not_finite(now.process)) is not None:
            raise ModelFileError(
                f"{broken} holds numbers that are not finite: such a model predicts nothing, and is not "
                "saved. Train it again: a lower learning rate, or Optimisation(clip=1.0), helps."
            )
        if hooks := hooks_since(now.process):
            raise InputError(
                f"{hooks[0]} has other hooks than when the model was made, and the file would "
                "make it again without them: remove them before you save, handle.remove()."
            )
        content = now.content()
        check_settings(json.loads(json.dumps(content.description)))  # what would be refused is not written
        write_container(Path(path), content)

    def __str__(self) -> str:
        made = recipe_of(self.process)
        what = "a model" if made is None else made.model
        if isinstance(self.process.backbone, LogProbabilities):
            what = "probabilities"
        named = "" if self.classes is None else ": " + ", ".join(map(str, self.classes[:8]))
        more = ", …" if len(self.classes or ()) > 8 else ""
        told = self.summary or "not calibrated: totalcal.calibrate(net, train, held_out)"
        lines = [f"{what} of {self.process.num_classes} classes{named}{more}", str(told)]
        lines += [
            f"learned:       {name}; {promised}" for name, promised in self.process.domain.promises.items()
        ]
        if self.process.domain.num_learned and self.summary is not None:
            lines.append(f"note:          {_ANSWERS_BEFORE}")
        if self.process.domain.promises and self.summary is not None:
            lines.append(f"note:          {_SELECTION_BEFORE}")
        return "\n".join(lines)

    __repr__ = __str__

    def inputs(self, rows: Any) -> Inputs:
        """Rows as the user has them, as the model takes them.

        Args:
            rows: One entry per row.

        Returns:
            The tensors.
        """
        if self.steps is not None:
            rows = self.steps(rows)
        if self.preprocessing is None:
            return as_inputs(rows)
        precision = next((weight.dtype for weight in self.process.parameters()), torch.float32)
        return self.preprocessing(rows, precision)


def save(
    model: TuringProcess,
    path: str | os.PathLike[str],
    *,
    gate: Gate | None = None,
    classes: Sequence[ClassName] | None = None,
    preprocessing: Preprocessing | None = None,
    context: Context | None = None,
    scores: Mapping[str, float] | None = None,
    monitor: Monitor | None = None,
    steps: Steps | None = None,
    sets: PredictionSets | None = None,
    summary: CalibrationSummary | None = None,
    takes: tuple[TensorForm, ...] | None = None,
) -> None:
    """Write a model and what goes with it as one file, which `load` reads without running any code.

    The file holds the weights and how every part is set now, whatever was changed since the model was made. A
    model of the family around one of our backbones is made again from the file alone. A backbone of your own
    is handed over when the file is loaded, and so is the whole model if its parts are your own, or set to
    what no file can name; the file says which.

    Args:
        model: Any model of the family, trained; with its memory of the domain, if it has one.
        path: The file to write; it is there whole or not at all.
        gate: When to answer; it makes its predictions again as those it was fitted on.
        classes: The names of the classes, in the order of the columns.
        preprocessing: From rows as the user has them to what the model takes.
        context: The rows, after preprocessing, that a model such as `anp` predicts from.
        scores: What was measured on held-out data.
        monitor: What a stream of predictions is watched by.
        steps: Transformers of scikit-learn that rows pass first (`totalcal.Pipeline`).
        sets: What gives predictions of the loaded model their sets of classes.
        summary: What `totalcal.calibrate` did.
        takes: The tensors that a net without preprocessing takes, for those who send rows to a service.

    Returns:
        Nothing.

    Raises:
        InputError: If there are not as many names as classes, or something cannot be written.
        ModelFileError: If weights are not finite: such a model predicts nothing.

    Example:
        >>> import tempfile, totalcal
        >>> model = totalcal.etp(totalcal.nets.mlp(4, 3), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(model, f"{folder}/iris.totalcal", classes=["setosa", "versicolor", "virginica"])
        ...     load(f"{folder}/iris.totalcal").classes
        ('setosa', 'versicolor', 'virginica')
    """
    model = cast(TuringProcess, uncompiled(model)) if isinstance(model, nn.Module) else model
    if not isinstance(model, TuringProcess):
        raise InputError(
            f"save writes a TuringProcess, not a {type(model).__name__}. Estimators, pipelines and "
            "calibrated models save themselves, model.save(path); a net becomes one by totalcal.calibrate."
        )
    names, rows = (
        None if classes is None else tuple(classes),
        None if context is None else as_context(context),
    )
    Model(model, gate, names, preprocessing, rows, scores, monitor, steps, sets, summary, takes).save(path)


def load(
    path: str | os.PathLike[str],
    *,
    backbone: nn.Module | None = None,
    model: TuringProcess | None = None,
    largest: int = LARGEST,
) -> Model:
    """Read what `save` wrote; a module of your own is given here, built as it was, and gets the weights.

    Args:
        path: The file.
        backbone: Your own net within a model of the family, wrapped or not.
        model: A model of your own parts.
        largest: How many bytes the file may have.

    Returns:
        The model and what was saved with it: `predict` takes rows as the user has them.

    Raises:
        ModelFileError: If the file is damaged, or needs a backbone or a model that was not given.

    Example:
        >>> import tempfile, totalcal
        >>> net = nn.Linear(4, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(totalcal.softmax(net, num_classes=3), f"{folder}/mine.totalcal")
        ...     load(f"{folder}/mine.totalcal", backbone=nn.Linear(4, 3)).process.num_classes
        3
    """
    content = read_container(Path(path), largest)
    try:
        groups, description = _unpacked(content.tensors), content.description
        rows, steps = groups.get("context"), content.steps
        return Model(
            process=_model(description, backbone, model, groups.get("model", {})),
            gate=_optional(Gate.from_json, description["gate"]),
            classes=_optional(tuple, description["classes"]),
            preprocessing=_preprocessing(description["preprocessing"], groups),
            context=None if rows is None else Batch(from_named(rows, "inputs"), rows["labels"]),
            scores=_optional(dict, description["scores"]),
            monitor=_optional(Monitor.from_json, description["monitor"]),
            steps=None if steps is None else Steps.unpacked(steps, description["steps"]["columns"]),
            sets=_optional(PredictionSets.from_json, description["sets"]),
            summary=_optional(CalibrationSummary.from_json, description["summary"]),
            takes=_optional(_forms, description["takes"]),
        )
    except TotalcalError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except _NONSENSE as error:
        raise ModelFileError(f"the description in {path} is not as it should be: {error!r}.") from error


def _model(
    description: Mapping[str, Any],
    backbone: nn.Module | None,
    model: TuringProcess | None,
    state: Mapping[str, Tensor],
) -> TuringProcess:
    """The model with the file's weights and settings."""
    settings: LayerSettings = description["settings"]
    recipe = _optional(Recipe.from_json, description["recipe"])
    if model is None and recipe is None:
        reason = description["by_hand"] or "it has parts of your own"
        raise ModelFileError(
            f"this file cannot make its model: {reason}. "
            "Build the model as it was, and hand it over: load(path, model=…)."
        )
    made = model if model is not None else _built(recipe, backbone, state, largest_size(settings))
    weights = [tensor for name, tensor in state.items() if not name.startswith((_DOMAIN, _CALIBRATOR))]
    precisions = {tensor.dtype for tensor in weights if tensor.is_floating_point()}
    if len(precisions) == 1:  # a model of several was built by the user, in those
        made.to(dtype=precisions.pop())
    if description["domain"] is not None:
        try:
            made.set_domain(_domain(description["domain"], state))
        except UnknownNameError as error:
            raise ModelFileError(f"its domain memory reads this net: {error} {_AS_IT_WAS}") from error
    if _CALIBRATOR + "bias" in state:
        made.calibrator = TemperatureAndBias(made.net_classes)
    _check_fit(made, state)
    made.load_state_dict(state)
    broken = not_finite(made)
    if broken is not None:
        raise ModelFileError(f"{broken} holds numbers that are not finite. Ask for a file of a sound model.")
    restore_settings(made, settings)
    before, now = set(description["hooks"]), set(hooked(made))
    if before != now:  # a file holds no hooks: those of a net are the user's to register again
        name = min(before ^ now)
        had, has = ("hooks", "none") if name in before else ("no hooks", "some")
        warnings.warn(
            f"{name} had {had} when this model was saved, and has {has} in the net that was handed over: if "
            "they change what it gives, predictions are others.",
            stacklevel=3,
        )
    for name in description["frozen"]:
        made.get_parameter(name).requires_grad_(False)
    return made.eval()


def _built(
    recipe: Recipe, backbone: nn.Module | None, state: Mapping[str, Tensor], largest_setting: int
) -> TuringProcess:
    """The model of a recipe, if it asks for no more than the file holds."""
    unmade = next((n for n, w in backbone.named_parameters() if is_lazy(w)), None) if backbone else None
    if unmade is not None:
        raise ModelFileError(
            f"the net handed over has not made {unmade} yet: call it once on some rows before."
        )
    own = {name: tensor for name, tensor in state.items() if not name.startswith((_DOMAIN, _CALIBRATOR))}
    available = sum(tensor.numel() for tensor in own.values())
    sizes = [value for value in recipe.arguments.values() if isinstance(value, int)]
    grown = recipe.num_classes * max([*sizes, largest_setting])  # cells and widths grow with the classes too
    if grown > max(available, _HARMLESS):
        raise _too_many(grown, available)
    with torch.random.fork_rng(devices=[]):  # the weights it starts from are overwritten at once
        if backbone is None:
            with torch.device("meta"), _rationed(own):
                _check_fit(recipe.build(), own)
        return recipe.build(backbone)


@contextmanager
def _rationed(state: Mapping[str, Tensor]) -> Iterator[None]:
    """A model that is made here ends in an error as soon as it has far more tensors or weights than the file.

    A mean-field layer replaces a plain one, so that somewhat more than the file holds is made on the way.
    """
    available = sum(tensor.numel() for tensor in state.values())
    most_tensors, most_weights = 4 * len(state) + _FEW, 4 * available + _HARMLESS
    thread, made = get_ident(), [0, 0]

    def count(_: nn.Module, __: str, tensor: Tensor | None) -> None:
        if tensor is None or get_ident() != thread:
            return
        made[0] += 1
        made[1] += tensor.numel()
        if made[0] > most_tensors or made[1] > most_weights:
            raise _too_many(made[1], available)

    with (
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ):
        yield


def _too_many(asked: int, available: int) -> ModelFileError:
    return ModelFileError(
        f"its recipe asks for {asked} weights or more, more than the {available} in the file. "
        "totalcal did not write this file: do not use it."
    )


def _domain(settings: Mapping[str, Any], state: Mapping[str, Tensor]) -> DomainMemory:
    """A memory made of the tensors that the file holds; its projection is drawn, and bounded here."""
    own = {name.removeprefix(_DOMAIN): tensor for name, tensor in state.items() if name.startswith(_DOMAIN)}
    asked = settings["widest"] * sum(tap["width"] for tap in settings["taps"])
    if asked > _LARGEST_PROJECTION:
        raise ModelFileError(f"its memory asks for {asked} numbers, too many to trust.")
    try:
        return DomainMemory.from_state(settings, own)
    except _NONSENSE as error:
        raise ModelFileError(f"its memory is not as it should be: {error}. {_ANOTHER_VERSION}") from error


def _check_fit(model: TuringProcess, state: Mapping[str, Tensor]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFileError(
            f"its weights are not those of this model: {len(wrong)} differ, for example {name}, which should "
            f"have shape {expected.get(name, 'none')} and has {found.get(name, 'none')}. {_AS_IT_WAS}"
        )


def _description(saved: Model) -> dict[str, Any]:
    """All that is not a tensor, as plain values."""
    given, recipe = saved.preprocessing, recipe_of(saved.process)
    return {
        "versions": {
            "totalcal": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "num_classes": saved.process.num_classes,
        "recipe": recipe and recipe.as_json(),
        "by_hand": why_no_recipe(saved.process),
        "settings": settings_of(saved.process),
        "domain": saved.process.domain.settings() if isinstance(saved.process.domain, DomainMemory) else None,
        "hooks": hooked(saved.process),
        "frozen": [name for name, weight in saved.process.named_parameters() if not weight.requires_grad],
        "classes": saved.classes,
        "gate": saved.gate and saved.gate.as_json(),
        "preprocessing": given
        and {
            "shape": given.shape,
            "columns": given.columns,
            "pictures": given.pictures and given.pictures.as_json(),
        },
        "scores": saved.scores and dict(saved.scores),
        "monitor": saved.monitor and saved.monitor.as_json(),
        "steps": saved.steps and saved.steps.as_json(),
        "sets": saved.sets and saved.sets.as_json(),
        "summary": saved.summary and saved.summary.as_json(),
        "takes": saved.takes,
    }


def _tensors(saved: Model) -> bytes:
    """All tensors in the format of safetensors, under the names group/name; tied weights stay apart."""
    groups: dict[str, Mapping[str, Tensor]] = {"model": saved.process.state_dict()}
    if saved.preprocessing is not None:
        groups["preprocessing"] = {"mean": saved.preprocessing.mean, "scale": saved.preprocessing.scale}
    if saved.context is not None:
        groups["context"] = {**named(saved.context.inputs, "inputs"), "labels": saved.context.labels}
    found = {}
    for group, members in groups.items():
        for name, value in members.items():
            if not isinstance(value, Tensor) or value.is_quantized:
                raise InputError(
                    f"a file holds plain tensors, but {name} is a {type(value).__name__}, as in quantised "
                    "nets: save the model with the net as it was before."
                )
            found[group + _SEPARATOR + name] = value.detach().cpu().contiguous().clone()
    return bytes(safetensors.torch.save(found))


def _unpacked(content: bytes) -> dict[str, dict[str, Tensor]]:
    """The groups, each with its tensors by name."""
    try:
        named = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ModelFileError(f"the tensors are damaged ({error}). Copy or save the file again.") from error
    groups: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in named.items():
        group, _, name = full_name.partition(_SEPARATOR)
        groups.setdefault(group, {})[name] = tensor
    return groups


def _preprocessing(
    content: Mapping[str, Any] | None, groups: Mapping[str, Mapping[str, Tensor]]
) -> Preprocessing | None:
    if content is None:
        return None
    columns, pictures = (
        _optional(tuple, content["columns"]),
        _optional(PictureSteps.from_json, content["pictures"]),
    )
    return Preprocessing(
        tuple(content["shape"]), **groups["preprocessing"], columns=columns, pictures=pictures
    )


def _forms(content: Sequence[Any]) -> tuple[TensorForm, ...]:
    forms = tuple(TensorForm(str(name), str(dtype), int(axes)) for name, dtype, axes in content)
    names = {form.name for form in forms}
    if len(names) < len(forms) or "" in names or not all(0 <= form.axes < MOST_AXES for form in forms):
        raise ModelFileError(f"no net takes such tensors: {str(content)[:80]}.")
    return forms


def _optional(make: Any, content: Any) -> Any:
    return None if content is None else make(content)
