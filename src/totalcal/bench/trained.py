"""From a cell to a trained predictor: by training, or from the nets that other cells have trained."""

import time
from collections.abc import Sequence

from totalcal.bench.building import build_process, draw_context
from totalcal.bench.cell import Cell
from totalcal.bench.seeds import derived
from totalcal.data.domain import TaskData
from totalcal.parts.sampling import AtMeans
from totalcal.process import TuringProcess
from totalcal.records.folders import RunFolder, Timing
from totalcal.records.lines import write_lines
from totalcal.rivals import Ensemble, MCDropout, temperature_scaled
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


def predictor_of(cell: Cell, folder: RunFolder, data: TaskData) -> Predictor:
    """What the verdict judges; training goes on where it was stopped, or is over at once."""
    return _assembled(cell, _plain_nets(cell, folder) or [train(cell, folder, data)], data)


def restored_predictor(cell: Cell, folder: RunFolder, data: TaskData) -> Predictor:
    """The same from a finished run, without any training."""
    return _assembled(cell, _plain_nets(cell, folder) or [trained_process(folder)], data)


def train(cell: Cell, folder: RunFolder, data: TaskData) -> TuringProcess:
    """Fit the cell's model, with checkpoints and history in its folder."""
    process = build_process(cell)
    history = fit(
        process,
        data.train,
        **cell.sections["training"],
        seed=derived("training", cell.task, cell.model, cell.seed),
        optimisation=Optimisation(**cell.sections["optimisation"]),
        contexts=Contexts(**cell.sections["contexts"]),
        checkpoints=folder.checkpoints,
        callbacks=[EpochClock(folder.timing)],
        progress=False,
    )
    write_lines(folder.history_file, [report._asdict() for report in history.epochs])
    folder.timing.note("trained", seconds=history.seconds)
    return process.cpu().eval()


def trained_process(folder: RunFolder) -> TuringProcess:
    """The model of a finished run."""
    process = build_process(Cell.from_config(folder.config))
    process.load_state_dict(load_checkpoint(folder.checkpoints).model)
    return process.eval()


def _plain_nets(cell: Cell, folder: RunFolder) -> list[TuringProcess]:
    """The nets of other cells that a rival is made of."""
    return [trained_process(RunFolder(folder.path.parent / need)) for need in cell.needs]


def _assembled(cell: Cell, nets: Sequence[TuringProcess], data: TaskData) -> Predictor:
    process = nets[0]
    match cell.model:
        case "ensemble":
            return Ensemble(nets)
        case "temperature":
            return temperature_scaled(process, tuple(data.held_out.whole()))
        case "mc_dropout":
            return MCDropout(process.backbone, "logits")
    if cell.sections["judging"]["weights"] == "mean":
        process.backbone = AtMeans(process.backbone)
    if process.context_use is ContextUse.REQUIRED:
        return process.given(draw_context(cell, data))
    return process
