"""Curves of a run for TensorBoard."""

from pathlib import Path

from totalcal.errors import MissingExtraError
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.history import EpochReport


class TensorBoard(Callback):
    """`fit(…, callbacks=[TensorBoard("runs/first")])`: every number of every epoch."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = folder

    def started(self, plan: Plan) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "writing curves for TensorBoard") from None
        self.writer = SummaryWriter(str(self.folder))

    def epoch_ended(self, report: EpochReport) -> None:
        for name, value in report._asdict().items():
            if name != "epoch" and value is not None:
                self.writer.add_scalar(name, value, report.epoch)

    def ended(self) -> None:
        self.writer.close()
