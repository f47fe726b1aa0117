"""From a run configuration to a trained predictor: by training, or from nets that other runs have trained."""

import time
from collections.abc import Sequence

from totalcal.baselines import BASELINES
from totalcal.bench.building import build_process, draw_context
from totalcal.bench.configuration import RunConfig, derived
from totalcal.data.domain import TaskData
from totalcal.parts.sampling import AtMeans
from totalcal.process import TuringProcess
from totalcal.records.folders import RunFolder, Timing
from totalcal.records.lines import write_lines
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.checkpoint import load_checkpoint
from totalcal.training.fit import fit
from totalcal.training.history import EpochReport
from totalcal.training.options import Contexts, Optimisation
from totalcal.types import ContextUse, Predictor


class EpochClock(Callback):
    """Notes each epoch in the run's folder, for those who watch."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing

    def started(self, plan: Plan) -> None:
        self.since = time.perf_counter()

    def epoch_ended(self, report: EpochReport) -> None:
        now = time.perf_counter()
        self.timing.note("epoch", epoch=report.epoch, seconds=now - self.since)
        self.since = now


def predictor_of(config: RunConfig, folder: RunFolder, data: TaskData) -> Predictor:
    """What the verdict judges; training goes on where it was stopped, or is over at once."""
    return _assembled(config, _plain_nets(config, folder) or [train(config, folder, data)], data)


def restored_predictor(config: RunConfig, folder: RunFolder, data: TaskData) -> Predictor:
    """The same from a finished run, without any training."""
    return _assembled(config, _plain_nets(config, folder) or [trained_process(folder)], data)


def train(config: RunConfig, folder: RunFolder, data: TaskData) -> TuringProcess:
    """Fit the configuration's model, with checkpoints and history in its folder."""
    process = build_process(config)
    history = fit(
        process,
        data.train,
        **config.sections["training"],
        seed=derived("training", config.task, config.model, config.seed),
        optimisation=Optimisation(**config.sections["optimisation"]),
        contexts=Contexts(**config.sections["contexts"]),
        checkpoints=folder.checkpoints,
        callbacks=[EpochClock(folder.timing)],
        progress=False,
    )
    write_lines(folder.history_file, [report._asdict() for report in history.epochs])
    folder.timing.note("trained", seconds=history.seconds)
    return process.cpu().eval()


def trained_process(folder: RunFolder) -> TuringProcess:
    """The model of a finished run."""
    process = build_process(RunConfig.from_json(folder.config))
    process.load_state_dict(load_checkpoint(folder.checkpoints).model)
    return process.eval()


def _plain_nets(config: RunConfig, folder: RunFolder) -> list[TuringProcess]:
    """The nets of other runs that a baseline is made of."""
    return [trained_process(RunFolder(folder.path.parent / need)) for need in config.needs]


def _assembled(config: RunConfig, processes: Sequence[TuringProcess], data: TaskData) -> Predictor:
    if config.model in BASELINES:
        nets = [process.backbone for process in processes]
        return BASELINES[config.model].assemble(nets, tuple(data.held_out.whole()))
    (process,) = processes
    if config.sections["judging"]["weights"] == "mean":
        process.backbone = AtMeans(process.backbone)
    if process.context_use is ContextUse.REQUIRED:
        return process.given(draw_context(config, data))
    return process
