"""What there is to report: the finished runs beneath a folder, by task and preset, and what they kept."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from totalcal.errors import InputError
from totalcal.files import read_npz, unreadable
from totalcal.report import Record, Summary
from totalcal_lab.records import read_records
from totalcal_lab.records.folders import RunFolder, finished_runs
from totalcal_lab.records.labels import (
    Column,
    aggregate,
    common_settings,
    in_order,
    settings_in_words,
    with_row_labels,
)

MOST_ROWS = 60
MOST_DRAWN, FEWEST_DRAWN = 10, 2
MOST_ON_A_PAGE = 24  # models whose figures are drawn, shared by the tasks: seconds, and megabytes

Array = NDArray[Any]
Part = TypeVar("Part")


@dataclass(frozen=True)
class ReliabilityBins:
    """By bins of confidence: how many, how sure, how often right; NaN where a bin is empty."""

    edges: Array
    counts: Array
    confidence: Array
    accuracy: Array


@dataclass(frozen=True)
class Entropies:
    """Histograms of the predictive entropy on common edges."""

    edges: Array
    in_distribution: Array
    ood: Mapping[str, Array]


@dataclass(frozen=True)
class Roc:
    """The entropy as an OOD detector; OOD is positive."""

    false_positive: Array
    true_positive: Array


@dataclass(frozen=True)
class RiskCoverage:
    """The error among the most confident share of the inputs."""

    coverage: Array
    risk: Array


@dataclass(frozen=True)
class Unsure:
    """The test inputs of highest entropy."""

    inputs: Array
    labels: Array
    predictions: Array
    terms: Array  # [inputs, 3]: reducible, irreducible, data


@dataclass(frozen=True)
class Memory:
    """The cells, how classes share attention over them, the training examples that attend to each most."""

    cells: Array  # [R, K]
    attention: Array  # [K, R]; NaN for a class that was not seen
    inputs: Array | None = None  # [R, examples, …]
    labels: Array | None = None  # [R, examples]


@dataclass(frozen=True)
class Artefacts:
    """All that a run kept for drawing (`artefacts.npz`), part by part; a part that is not there is None."""

    classes: tuple[str, ...]
    reliability: ReliabilityBins | None
    entropies: Entropies | None
    rocs: Mapping[str, Roc]
    decomposition: Mapping[str, Array]  # right, wrong, each OOD set → three terms
    risk_coverage: RiskCoverage | None
    unsure: Unsure | None
    memory: Memory | None


@dataclass(frozen=True)
class Run:
    """One finished run: its folder, and its record with the row's label for `model`."""

    folder: RunFolder
    record: Record

    @property
    def model(self) -> str:
        return str(self.record["model"])

    @property
    def seed(self) -> int:
        return int(self.record["seed"])

    @cached_property
    def config(self) -> Record:
        return self.folder.config


@dataclass(frozen=True)
class Board:
    """All runs of one task under one preset, models in their usual order, seeds ascending."""

    task: str
    preset: str
    settings: str
    runs: tuple[Run, ...]
    most_drawn: int = MOST_DRAWN

    @property
    def name(self) -> str:
        return slug(f"{self.task}-{self.preset}")

    @property
    def is_reduced(self) -> bool:
        """Whether the preset trains less than the paper did."""
        return any(run.record.get("reduced", False) for run in self.runs)

    @cached_property
    def models(self) -> list[str]:
        return list(dict.fromkeys(run.model for run in self.runs))

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Summary]]:
        """Model → score → summary over seeds."""
        found = aggregate([run.record for run in self.runs], by=("model",))
        return {model: found[(model,)] for model in self.models}

    def of(self, model: str) -> list[Run]:
        """The runs of a model, by seed."""
        return self._by_model[model]

    @cached_property
    def _by_model(self) -> Mapping[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.model, []).append(run)
        return found

    @cached_property
    def listed(self) -> list[str]:
        """The models that tables show at once: of very many those of the preset, then the best by NLL."""
        return self._chosen(MOST_ROWS)

    @cached_property
    def drawn(self) -> list[str]:
        """The models that figures show: as many as a person can look at, chosen like `listed`."""
        return self._chosen(self.most_drawn)

    def _chosen(self, most: int) -> list[str]:
        if len(self.models) <= most:
            return self.models
        ranked = sorted(self.models, key=lambda model: ("(" in model, self._nll(model)))
        chosen = set(ranked[:most])
        return [model for model in self.models if model in chosen]

    def _nll(self, model: str) -> float:
        mean = self.scores[model]["nll"].mean if "nll" in self.scores[model] else math.inf
        return math.inf if math.isnan(mean) else mean

    @cached_property
    def artefacts(self) -> Mapping[str, Artefacts]:
        """Model → what its first seed kept for drawing."""
        files = {model: self.of(model)[0].folder.artefacts_file for model in self.drawn}
        return {model: read_artefacts(file) for model, file in files.items() if file.exists()}


def boards(root: Path) -> list[Board]:
    """What there is to report beneath a folder; an error that says what to do if there is nothing."""
    found: dict[Column, list[tuple[RunFolder, Record]]] = {}
    for folder in finished_runs(root):
        if records := read_records(folder.records_file):
            record = records[-1]
            found.setdefault((record["task"], record["preset"]), []).append((folder, record))
    if not found:
        raise InputError(f"no run in {root} has finished yet. See: totalcal-lab status {root}")
    share = max(FEWEST_DRAWN, min(MOST_DRAWN, MOST_ON_A_PAGE // len(found)))
    return [_board(column, runs, share) for column, runs in sorted(found.items())]


def _board(column: Column, runs: list[tuple[RunFolder, Record]], most_drawn: int) -> Board:
    records = [record for _, record in runs]
    named = [Run(folder, record) for (folder, _), record in zip(runs, with_row_labels(records), strict=True)]
    models = {model: number for number, model in enumerate(in_order(run.model for run in named))}
    ordered = sorted(named, key=lambda run: (models[run.model], run.seed))
    return Board(*column, settings_in_words(common_settings(records)), tuple(ordered), most_drawn)


def slug(text: str) -> str:
    """Letters, digits and dashes, safe in an address and in a file name; everything else is a dash.

    >>> slug("etp (weight_kl_scale=0)"), slug("../../etc")
    ('etp-weight_kl_scale-0', 'etc')
    """
    return re.sub(r"\W+", "-", text).strip("-")


def read_artefacts(path: Path) -> Artefacts:
    """Read what is there."""
    arrays = read_npz(path)
    with unreadable(path, "artefacts of a run", f"Delete {path.parent} and run it again."):
        return Artefacts(
            classes=tuple(map(str, arrays["class_names"])),
            reliability=_part(arrays, "reliability", ReliabilityBins),
            entropies=_entropies(arrays),
            rocs=_rocs(arrays),
            decomposition=_decomposition(arrays),
            risk_coverage=_part(arrays, "risk_coverage", RiskCoverage),
            unsure=_part(arrays, "unsure", Unsure),
            memory=_part(arrays, "memory", Memory),
        )


def _part(arrays: Mapping[str, Array], name: str, kind: Callable[..., Part]) -> Part | None:
    """The fields of a part from the keys `name/field`; None where there are none."""
    found = _beneath(arrays, f"{name}/")
    wanted = inspect.signature(kind).parameters.keys() & found.keys()
    return kind(**{field: found[field] for field in wanted}) if found else None


def _entropies(arrays: Mapping[str, Array]) -> Entropies | None:
    if "entropy/edges" not in arrays:
        return None
    ood = _beneath(arrays, "entropy/ood/")
    return Entropies(arrays["entropy/edges"], arrays["entropy/in_distribution"], ood)


def _rocs(arrays: Mapping[str, Array]) -> dict[str, Roc]:
    ends = "/false_positive"
    members = [key.removesuffix(ends) for key in _beneath(arrays, "roc/") if key.endswith(ends)]
    return {
        member: Roc(arrays[f"roc/{member}{ends}"], arrays[f"roc/{member}/true_positive"])
        for member in members
    }


def _decomposition(arrays: Mapping[str, Array]) -> dict[str, Array]:
    found = _beneath(arrays, "decomposition/")
    return {key.removeprefix("ood/"): terms for key, terms in found.items()}


def _beneath(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {key.removeprefix(prefix): values for key, values in arrays.items() if key.startswith(prefix)}
