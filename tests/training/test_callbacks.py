"""Watchers of a run: the user's own, the progress bar, TensorBoard."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from torch import Tensor

from totalcal import fit
from totalcal.errors import MissingExtraError
from totalcal.models.process import TuringProcess
from totalcal.training.callbacks import Callback, Plan, ProgressBar, TensorBoard
from totalcal.training.history import EpochReport, StepReport

Pair = tuple[Tensor, Tensor]
Make = Callable[..., TuringProcess]


class Diary(Callback):
    def __init__(self, stop: bool = False) -> None:
        self.entries: list[object] = []
        self.stop = stop

    def started(self, plan: Plan) -> None:
        self.entries.append(("started", plan.epochs, plan.steps))

    def stepped(self, report: StepReport) -> None:
        self.entries.append((report.epoch, report.step, report.rows))
        if self.stop:
            raise KeyboardInterrupt

    def epoch_ended(self, report: EpochReport) -> None:
        self.entries.append(("epoch", report.epoch))

    def ended(self) -> None:
        self.entries.append("ended")


def test_a_callback_sees_the_run_in_order(quadrants: Pair, make_etp: Make) -> None:
    diary = Diary()
    fit(make_etp(), quadrants, epochs=2, batch_size=64, callbacks=[diary])
    steps = [[(epoch, 0, 64), (epoch, 1, 32), ("epoch", epoch)] for epoch in range(2)]
    assert diary.entries == [("started", 2, 2), *steps[0], *steps[1], "ended"]


def test_callbacks_are_told_of_the_end_of_an_interrupted_run(quadrants: Pair, make_etp: Make) -> None:
    diary = Diary(stop=True)
    with pytest.raises(KeyboardInterrupt):
        fit(make_etp(), quadrants, epochs=2, callbacks=[diary])
    assert diary.entries[-1] == "ended"


def test_an_epochs_report_is_the_mean_over_its_rows(quadrants: Pair, make_etp: Make) -> None:
    reports: list[StepReport] = []

    class Collect(Callback):
        def stepped(self, report: StepReport) -> None:
            reports.append(report)

    history = fit(make_etp(), quadrants, epochs=1, batch_size=64, callbacks=[Collect()])
    for name in ("loss", "local_kl", "weight_kl", "memory_movement"):
        mean = sum(report.rows * getattr(report, name) for report in reports) / 96
        assert getattr(history.epochs[0], name) == pytest.approx(mean)


def test_the_progress_bar_shows_terms_and_movement(quadrants: Pair, make_etp: Make) -> None:
    screen = io.StringIO()
    bar = ProgressBar(Console(file=screen, force_terminal=True, width=200))
    fit(make_etp(), quadrants, epochs=2, callbacks=[bar], validation=quadrants)
    for word in ("epoch 2/2", "loss", "expected_nll", "weight_kl", "memory_movement", "validation_nll"):
        assert word in screen.getvalue()


def test_nothing_is_printed_when_nobody_looks(
    quadrants: Pair, make_etp: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(make_etp(), quadrants, epochs=1)
    assert capfd.readouterr() == ("", "")


def test_tensorboard_gets_every_number(quadrants: Pair, make_etp: Make, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    history = fit(make_etp(), quadrants, epochs=2, callbacks=[TensorBoard(tmp_path)])
    log = events.EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in log.Scalars("loss")] == pytest.approx([r.loss for r in history.epochs])


def test_tensorboard_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, quadrants: Pair, make_etp: Make
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match="tensorboard"):
        fit(make_etp(), quadrants, epochs=1, callbacks=[TensorBoard("unused")])
