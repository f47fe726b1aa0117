"""The corruption benchmark as jobs: one a type and severity, shared by all finished runs of a grid."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from totalcal.bench.attempt import attempt
from totalcal.bench.corrupted import Variant, judge_corrupted, restored
from totalcal.bench.jobs import Jobs
from totalcal.bench.run_cell import one_thread
from totalcal.corruptions import CORRUPTIONS, SEVERITIES
from totalcal.data.tasks import task
from totalcal.errors import InputError, UnknownNameError
from totalcal.records.folders import RunFolder
from totalcal.records.lines import read_lines
from totalcal.records.store import append


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
        name = hashlib.sha256(json.dumps(self.config).encode()).hexdigest()[:16]
        return RunFolder(self.runs[0].path.parent / "corruptions" / name)

    def __call__(self) -> None:
        attempt(self.folder, self._work)

    def _work(self, _: RunFolder) -> None:
        missing = tuple(run for run in self.runs if not _is_judged(run, self.variant))
        if missing:
            with one_thread():
                lines = judge_corrupted(self.variant, restored(missing, self.data_dir))
            for run, line in zip(missing, lines, strict=True):
                append(run.corruptions_file, line)


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
    return Jobs.planned([CorruptionJob(done, variant, data_dir) for variant in variants])


def _is_judged(run: RunFolder, variant: Variant) -> bool:
    wanted = (variant.type, variant.severity, variant.images)
    lines = read_lines(run.corruptions_file)
    return any((line["corruption"], line["severity"], line["images"]) == wanted for line in lines)
