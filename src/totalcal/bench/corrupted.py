"""Trained models under corruption: a block of images is corrupted once, and all models see it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from totalcal.bench.building import load_data
from totalcal.bench.cell import Cell
from totalcal.bench.seeds import derived
from totalcal.bench.trained import restored_predictor
from totalcal.corruptions import corrupted_blocks
from totalcal.data.batches import ArrayData
from totalcal.data.tasks import task
from totalcal.errors import InputError
from totalcal.records.folders import RunFolder
from totalcal.scores.evaluate import log_likelihoods
from totalcal.scores.modes import eval_mode
from totalcal.scores.streaming import RunningScores
from totalcal.types import Batch, Predictor


class Variant(NamedTuple):
    """A corrupted test set: a type, a severity, and how many of its images (None: all)."""

    type: str
    severity: int
    images: int | None = None


class Restored(NamedTuple):
    """The test set that a grid has in common, and its models."""

    test: ArrayData
    cells: list[Cell]
    predictors: list[Predictor]


@lru_cache(maxsize=1)
def restored(folders: tuple[RunFolder, ...], data_dir: Path | None) -> Restored:
    """Models of finished runs and their test set, once a worker rather than once a variant."""
    if not folders:
        raise InputError("no run has finished yet: there is nothing to show corrupted images to.")
    cells, predictors, data, seed = [], [], None, None
    for folder in folders:
        cell = Cell.from_config(folder.config)
        if data is None or cell.seed != seed:
            data, seed = load_data(cell, data_dir, panel=()), cell.seed
        cells.append(cell)
        predictors.append(restored_predictor(cell, folder, data))
    assert data is not None
    return Restored(data.test, cells, predictors)


def judge_corrupted(variant: Variant, models: Restored) -> list[dict[str, Any]]:
    """A line for each model: error, NLL and ECE at 15 and at 100 bins."""
    scores = [(RunningScores(bins=15), RunningScores(bins=100)) for _ in models.cells]
    noise = [_generator(variant, cell) for cell in models.cells]
    for inputs, labels in _corrupted(variant, models):
        for cell, predictor, generator, tallies in zip(
            models.cells, models.predictors, noise, scores, strict=True
        ):
            with eval_mode(predictor):
                predictive = predictor.predict(
                    inputs, draws=cell.sections["judging"]["draws"], generator=generator
                )
            likelihoods = log_likelihoods(predictive, labels)
            for tally in tallies:
                tally.update(predictive.probabilities, labels, likelihoods)
    return [_line(variant, cell, tallies) for cell, tallies in zip(models.cells, scores, strict=True)]


def _corrupted(variant: Variant, models: Restored) -> Iterator[Batch]:
    """The test set corrupted, block by block, scaled as the models are used to."""
    test = models.test.subset(torch.arange(len(models.test))[: variant.images])
    grey = test.inputs.shape[-1] == 1
    raw = test.inputs.squeeze(-1) if grey else test.inputs
    source = task(models.cells[0].task).source
    for rows, block in corrupted_blocks(raw, variant.type, variant.severity, dataset=source):
        shown = block.unsqueeze(-1) if grey else block
        yield replace(test, inputs=shown, labels=test.labels[rows]).whole()


def _generator(variant: Variant, cell: Cell) -> torch.Generator:
    place = (variant.type, variant.severity, cell.task, cell.model, cell.seed)
    return torch.Generator().manual_seed(derived("corruption", *place))


def _line(variant: Variant, cell: Cell, tallies: Sequence[RunningScores]) -> dict[str, Any]:
    few, many = tallies
    return {
        **cell.identity,
        "corruption": variant.type,
        "severity": variant.severity,
        "images": variant.images,
        "error": few.error,
        "nll": few.nll,
        "ece": float(few.ece),
        "ece_100": float(many.ece),
        "examples": few.examples,
        "config": cell.name,
    }
