"""The finished runs beneath a folder, sorted by task and preset."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from totalcal.errors import InputError
from totalcal.records import Record, Summary, aggregate, read
from totalcal.records.folders import RunFolder, run_folders
from totalcal.records.labels import Column, common_settings, described, in_order, labelled
from totalcal.report.artefacts import Artefacts, load
from totalcal.report.names import slug


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


@dataclass(frozen=True)
class Board:
    """All runs of one task under one preset, models in their usual order, seeds ascending."""

    task: str
    preset: str
    settings: str
    runs: tuple[Run, ...]

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
        return [run for run in self.runs if run.model == model]

    @cached_property
    def artefacts(self) -> Mapping[str, Artefacts]:
        """Model → what its first seed kept for drawing."""
        files = {model: self.of(model)[0].folder.artefacts_file for model in self.models}
        return {model: load(file) for model, file in files.items() if file.exists()}


def boards(root: Path) -> list[Board]:
    """What there is to report beneath a folder; an error that says what to do if there is nothing."""
    found: dict[Column, list[tuple[RunFolder, Record]]] = {}
    for folder in run_folders(root):
        if folder.is_done and (records := read(folder.records_file)):
            record = records[-1]
            found.setdefault((record["task"], record["preset"]), []).append((folder, record))
    if not found:
        raise InputError(f"no run in {root} has finished yet. See: totalcal status {root}")
    return [_board(column, runs) for column, runs in sorted(found.items())]


def _board(column: Column, runs: list[tuple[RunFolder, Record]]) -> Board:
    records = [record for _, record in runs]
    named = [Run(folder, record) for (folder, _), record in zip(runs, labelled(records), strict=True)]
    models = in_order(run.model for run in named)
    ordered = sorted(named, key=lambda run: (models.index(run.model), run.seed))
    return Board(*column, described(common_settings(records)), tuple(ordered))
