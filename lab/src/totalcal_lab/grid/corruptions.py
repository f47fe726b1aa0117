"""The corruption benchmark: a block of images is corrupted once, and all trained models see it.

A job per type and severity, shared by all finished runs of a grid.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from totalcal.errors import InputError, UnknownNameError
from totalcal.scores import Floats, ece, error, eval_mode, log_likelihoods
from totalcal.types import Batch, Predictor, Sampling
from totalcal_lab.corruptions import CORRUPTIONS, SEVERITIES, corrupted_blocks
from totalcal_lab.data.arrays import ArrayData
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.building import load_data, restored_predictor
from totalcal_lab.grid.configuration import RunConfig, folder_name
from totalcal_lab.grid.jobs import Jobs, attempt, one_thread
from totalcal_lab.grid.judging import prediction_in_words
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import append, read_lines, write_lines


class Variant(NamedTuple):
    """A corrupted test set: a type, a severity, and how many of its images (None: all)."""

    type: str
    severity: int
    images: int | None = None


class Restored(NamedTuple):
    """The test set that a grid has in common, and its models."""

    test: ArrayData
    configs: list[RunConfig]
    predictors: list[Predictor]


@lru_cache(maxsize=1)
def restored(folders: tuple[RunFolder, ...], data_dir: Path | None) -> Restored:
    """Models of finished runs and their test set, once per worker rather than once per variant."""
    if not folders:
        raise InputError("no run has finished yet: there is nothing to show corrupted images to.")
    configs, predictors, data, seed = [], [], None, None
    for folder in folders:
        config = RunConfig.from_json(folder.config)
        if data is None or config.seed != seed:
            data, seed = load_data(config, data_dir, panel=()), config.seed
        configs.append(config)
        predictors.append(restored_predictor(config, folder, data))
    assert data is not None
    return Restored(data.test, configs, predictors)


def judge_corrupted(variant: Variant, models: Restored) -> list[dict[str, Any]]:
    """A line for each model: error, NLL and ECE at 15 and at 100 bins."""
    seen: list[list[_Seen]] = [[] for _ in models.configs]
    for inputs, labels in corrupted_batches(variant, models):
        for config, predictor, blocks in zip(models.configs, models.predictors, seen, strict=True):
            with eval_mode(predictor):
                draws = config.sections["judging"]["draws"]
                found = predictor.predict(inputs, draws=draws, seed=config.seed)
            likelihoods = log_likelihoods(found, labels)
            probabilities = found.probabilities.double().numpy(force=True)
            blocks.append(_Seen(probabilities, labels.numpy(), likelihoods, found.sampling))
    return [_line(variant, *each) for each in zip(models.configs, seen, strict=True)]


class _Seen(NamedTuple):
    """What a model says of a block of corrupted images."""

    probabilities: Floats
    labels: NDArray[np.int64]
    log_likelihoods: Floats
    sampling: Sampling


def corrupted_batches(variant: Variant, models: Restored) -> Iterator[Batch]:
    """The test set corrupted, block by block, scaled as the models are used to."""
    test = models.test.subset(torch.arange(len(models.test))[: variant.images])
    grey = test.inputs.shape[-1] == 1
    raw = test.inputs.squeeze(-1) if grey else test.inputs
    source = task(models.configs[0].task).source
    for rows, block in corrupted_blocks(raw, variant.type, variant.severity, dataset=source):
        shown = block.unsqueeze(-1) if grey else block
        yield replace(test, inputs=shown, labels=test.labels[rows]).whole()


def _line(variant: Variant, config: RunConfig, blocks: Sequence[_Seen]) -> dict[str, Any]:
    columns = list(zip(*blocks, strict=True))
    probabilities, labels, likelihoods = map(np.concatenate, columns[:3])
    return {
        **config.identity,
        "corruption": variant.type,
        "severity": variant.severity,
        "images": variant.images,
        "error": error(probabilities, labels),
        "nll": -float(likelihoods.mean()),
        "ece": float(ece(probabilities, labels)),
        "ece_100": float(ece(probabilities, labels, 100)),
        "examples": len(labels),
        "prediction": prediction_in_words(blocks[0].sampling),
        "config": config.name,
    }


@dataclass(frozen=True)
class CorruptionJob:
    """One variant of the test set, for the runs of a grid; its own folder keeps how far it is."""

    runs: tuple[RunFolder, ...]
    variant: Variant
    data_dir: Path | None = None

    @property
    def config(self) -> dict[str, Any]:
        first = self.runs[0].config
        return {
            "task": first["task"],
            "preset": first["preset"],
            "model": self.variant.type,
            "seed": self.variant.severity,
            "epochs": 0,
            "images": self.variant.images,
            "runs": [run.name for run in self.runs],
        }

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.runs[0].path.parent / "corruptions" / folder_name(json.dumps(self.config)))

    def __call__(self) -> None:
        attempt(self.folder, self._work)

    def _work(self, folder: RunFolder) -> None:
        missing = tuple(run for run in self.runs if self.variant not in _judged(run))
        if missing:
            with one_thread():
                lines = judge_corrupted(self.variant, restored(missing, self.data_dir))
            for run, line in zip(missing, lines, strict=True):
                append(run.corruptions_file, line, sealed=True)
        write_lines(folder.records_file, [{"lines": len(self.runs)}])


def corruption_jobs(
    runs: Sequence[RunFolder],
    types: Sequence[str] = tuple(CORRUPTIONS),
    severities: Sequence[int] = SEVERITIES,
    images: int | None = None,
    data_dir: Path | None = None,
) -> Jobs:
    """Severity by severity, so that a stopped benchmark has all types at the lower ones."""
    for type in types:
        if type not in CORRUPTIONS:
            raise UnknownNameError("corruption", type, CORRUPTIONS)
    done = tuple(run for run in runs if run.is_done)
    if not done or task(done[0].config["task"]).kind != "image":
        raise InputError("corruptions need at least one finished run on a task of images.")
    variants = [Variant(type, severity, images) for severity, type in product(severities, types)]
    jobs = [CorruptionJob(done, variant, data_dir) for variant in variants]
    judged = [_judged(run) for run in done]
    for job in jobs:
        if not all(job.variant in lines for lines in judged):
            job.folder.reopen()  # a line was lost since
    return Jobs.planned(jobs)


def _judged(run: RunFolder) -> set[Variant]:
    lines = read_lines(run.corruptions_file)
    return {Variant(line["corruption"], line["severity"], line["images"]) for line in lines}
