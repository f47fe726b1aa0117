"""The domain benchmark: every finished run remembers its domain, and is judged on OOD sets, near and far.

One job per run. A line per OOD set has the AUROC of familiarity beside those of the uncertainties and of the
post-hoc baselines, all on the same net; a line for the test set has the rate of false alarms; a line per
corruption has how familiarity falls. Nothing is fitted on anything but training and
held-out rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from totalcal.baselines import OODScored
from totalcal.errors import InputError
from totalcal.memory import DomainMemory, remember
from totalcal.models import TuringProcess
from totalcal.scores import UNFAMILIARITIES, Floats, Verdict, evaluate, rank
from totalcal_lab.corruptions import CORRUPTIONS, SEVERITIES
from totalcal_lab.data.domain import TaskData
from totalcal_lab.data.synthetic import SYNTHETIC_OOD
from totalcal_lab.data.tasks import task
from totalcal_lab.grid.building import load_data, restored_predictor
from totalcal_lab.grid.configuration import RunConfig, folder_name
from totalcal_lab.grid.corruptions import Restored, Variant, corrupted_batches
from totalcal_lab.grid.jobs import Jobs, attempt, one_thread
from totalcal_lab.grid.judging import prediction_in_words
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import append, read_lines, write_lines

ROWS = 5_000
"""Of each OOD set at most: the AUROC of two sets of 5,000 is known to about half a point."""

CORRUPTED_IMAGES = 1_000
FALSE_ALARMS = (0.05, 0.01)


@dataclass(frozen=True)
class DomainJob:
    """One run, with a folder of its own that keeps how far it is."""

    run: RunFolder
    data_dir: Path | None = None
    corruptions: Sequence[str] = tuple(CORRUPTIONS)

    @property
    def config(self) -> dict[str, Any]:
        own = self.run.config
        return {
            **{key: own[key] for key in ("task", "preset", "model", "seed")},
            "epochs": 0,
            "run": self.run.name,
            "rows": ROWS,
            **({} if len(self.corruptions) == len(CORRUPTIONS) else {"corruptions": list(self.corruptions)}),
        }

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.run.path.parent / "domain" / folder_name(json.dumps(self.config)))

    def __call__(self) -> None:
        attempt(self.folder, self._work)

    def _work(self, folder: RunFolder) -> None:
        judged = {(line["ood"], line.get("severity")) for line in read_lines(self.run.domain_file)}
        with one_thread():
            for line in judge_domain(self.run, self.data_dir, self.corruptions):
                if (line["ood"], line.get("severity")) not in judged:
                    append(self.run.domain_file, line, sealed=True)
                    judged.add((line["ood"], line.get("severity")))
        write_lines(folder.records_file, [{"lines": len(judged)}])

    @property
    def is_whole(self) -> bool:
        """Whether the run still has the lines that were written."""
        written = read_lines(self.folder.records_file)
        return bool(written) and len(read_lines(self.run.domain_file)) >= written[0]["lines"]


def domain_jobs(
    runs: Sequence[RunFolder], data_dir: Path | None = None, corruptions: Sequence[str] = tuple(CORRUPTIONS)
) -> Jobs:
    """A job per finished run of the family; baselines are made of other runs' nets."""
    done = [run for run in runs if run.is_done and not run.config["needs"]]
    if not done:
        raise InputError("no run has finished yet: there is nothing that could remember its domain.")
    jobs = [DomainJob(run, data_dir, corruptions) for run in done]
    for job in jobs:
        if not job.is_whole:
            job.folder.reopen()
    return Jobs.planned(jobs)


def judge_domain(
    run: RunFolder, data_dir: Path | None, corruptions: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """All lines of one run."""
    config = RunConfig.from_json(run.config)
    data = load_data(config, data_dir, panel=_panel(config))
    predictor = restored_predictor(config, run, data)
    process = predictor if isinstance(predictor, TuringProcess) else getattr(predictor, "process", None)
    if not isinstance(process, TuringProcess):
        raise InputError(f"{config.model} is not a model of the family: it has no slot for a domain memory.")
    memory = remember(process, data.train, data.held_out, progress=False)
    verdict = _verdict(config, process, data)
    common = {
        **config.identity,
        "config": config.name,
        "prediction": prediction_in_words(verdict.sampling),
        "rows": ROWS,
        "taps": [str(tap) for tap in memory.taps],
    }
    yield {**common, "ood": "none", **_in_distribution(verdict, memory)}
    for name, member in verdict.panel.items():
        nearness = next(each.nearness for each in task(config.task).members((name,), _left_out(config)))
        rankings = {f"auroc_by_{score}": ranking.auroc for score, ranking in member.rankings.items()}
        yield {**common, "ood": name, "nearness": nearness, "examples": member.examples, **rankings}
    if task(config.task).kind == "image":
        yield from ({**common, **line} for line in _under_corruption(config, process, data, corruptions))


def _panel(config: RunConfig) -> tuple[str, ...]:
    mine = task(config.task)
    own = (*mine.members(None, _left_out(config)), *mine.further)
    return tuple(member.name for member in own) + (tuple(SYNTHETIC_OOD) if mine.kind == "image" else ())


def _left_out(config: RunConfig) -> Sequence[str | int] | None:
    left_out: Sequence[str | int] | None = config.sections["data"]["left_out"]
    return left_out


def _verdict(config: RunConfig, process: TuringProcess, data: TaskData) -> Verdict:
    options = config.sections["judging"]
    size = options["batch_size"]
    scored = OODScored(process, data.train)
    panel = {name: rows.take(ROWS, seed=0) for name, rows in data.ood.items()}
    return evaluate(
        scored,
        data.test.batches(size),
        {name: (batch.inputs for batch in rows.batches(size)) for name, rows in panel.items()},
        draws=options["draws"],
        seed=config.seed,
        batch_size=size,
    )


def _in_distribution(verdict: Verdict, memory: DomainMemory) -> dict[str, Any]:
    """False alarms on the test set."""
    seen = verdict.observed.test.uncertainties
    ranked = [torch.as_tensor(seen[name]) for name in UNFAMILIARITIES]
    familiarity = memory.p_values(torch.stack(ranked, -1))[:, 0].numpy()
    alarms = {f"false_alarms/{level:g}": float((familiarity <= level).mean()) for level in FALSE_ALARMS}
    return {"examples": len(familiarity), "calibration_rows": memory.calibration.shape[-1], **alarms}


def _under_corruption(
    config: RunConfig, process: TuringProcess, data: TaskData, types: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """How familiarity falls with severity, and how well it tells which answers are wrong."""
    models = Restored(data.test, [config], [process])
    for severity in SEVERITIES:
        for type in types:
            seen = [
                (process.predict(inputs, draws=0), labels)
                for inputs, labels in corrupted_batches(Variant(type, severity, CORRUPTED_IMAGES), models)
            ]
            probabilities = np.concatenate([p.probabilities.double().numpy() for p, _ in seen])
            labels = np.concatenate([y.numpy() for _, y in seen])
            wrong = probabilities.argmax(1) != labels
            entropy = np.concatenate([p.entropy.numpy() for p, _ in seen])
            unfamiliarity = np.concatenate([p.unfamiliarity.numpy() for p, _ in seen])
            familiarity = np.concatenate([p.familiarity.numpy() for p, _ in seen])
            yield {
                "ood": f"corruption/{type}",
                "prediction": "no draws",
                "severity": severity,
                "examples": len(wrong),
                "error": float(wrong.mean()),
                "familiarity": float(familiarity.mean()),
                "alarms/0.05": float((familiarity <= 0.05).mean()),
                **_wrong_told(wrong, entropy, unfamiliarity),
            }


def _wrong_told(wrong: np.ndarray, entropy: Floats, unfamiliarity: Floats) -> dict[str, float]:
    """AUROC of "will be answered wrongly" by each, and by the sum of both ranks."""
    if wrong.all() or not wrong.any():
        return {}
    ranks = [each.argsort().argsort().astype(float) for each in (entropy, unfamiliarity)]
    scores = {"entropy": entropy, "unfamiliarity": unfamiliarity, "both": ranks[0] + ranks[1]}
    return {f"wrong_by_{name}": rank(values[~wrong], values[wrong]).auroc for name, values in scores.items()}
