"""A training run: epochs of steps, each between a checkpoint and the next."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from totalcal.process import TuringProcess
from totalcal.training.batches import epoch_batches
from totalcal.training.callbacks import Callback, Plan
from totalcal.training.divergence import check_finite
from totalcal.training.history import EpochReport, History, StepReport, Tally
from totalcal.training.keeper import Keeper, NoKeeper
from totalcal.training.optimiser import build_optimizer, build_schedule, may_fuse
from totalcal.training.options import Settings
from totalcal.training.seeds import Purpose, derived_seed, generator_for, reseed
from totalcal.training.sources import Source
from totalcal.training.state import RunState
from totalcal.training.step import TrainingStep
from totalcal.training.validation import context_for, validation_nll
from totalcal.types import Batch

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Run:
    """`trained` learns from `data`; `whole` is the user's model: the same, or what `trained` is a part of."""

    def __init__(
        self,
        settings: Settings,
        trained: TuringProcess,
        whole: TuringProcess,
        data: Source,
        validation: Source | None,
        fabric: "Fabric",
    ) -> None:
        self.settings, self.fabric = settings, fabric
        self.trained, self.data, self.validation = trained, data, validation
        options = settings.optimisation
        trained.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.step = fabric.setup_module(TrainingStep(trained, settings.contexts.write))
        optimizer = build_optimizer(trained, options, may_fuse(fabric.device, settings.precision, options))
        schedule = build_schedule(optimizer, options, settings.epochs)
        self.optimizer: Any = fabric.setup_optimizers(optimizer)
        self.state = RunState(whole, self.optimizer, schedule, fabric.strategy.precision)

    def finish(self, keeper: Keeper | NoKeeper, callbacks: Sequence[Callback]) -> History:
        """All that is left to do after the last checkpoint."""
        state = self.state
        keeper.resume(state)
        with ExitStack() as watched:
            for callback in callbacks:
                callback.started(Plan(self.trained, self.settings.epochs, self._steps_an_epoch()))
                watched.callback(callback.ended)
            while not self._is_over():
                self._train_epoch(keeper, callbacks)
                self._end_epoch()
                for callback in callbacks:
                    callback.epoch_ended(state.history.epochs[-1])
                keeper.after_epoch(state)
        if state.best:
            state.model.load_state_dict(state.best)
        state.model.eval()
        return state.history

    def _train_epoch(self, keeper: Keeper | NoKeeper, callbacks: Sequence[Callback]) -> None:
        state, fabric, started = self.state, self.fabric, time.perf_counter()
        self.step.train()
        batches = epoch_batches(
            self.data,
            self.settings,
            state.epoch,
            state.step,
            fabric.device,
            fabric.global_rank,
            fabric.world_size,
        )
        for batch, context in batches:
            report = self.train_step(batch, context)
            state.tally.add(report)
            state.step += 1
            for callback in callbacks:
                callback.stepped(report)
            keeper.after_step(state)
        state.history.seconds.append(time.perf_counter() - started)

    def train_step(self, batch: Batch, context: int) -> StepReport:
        terms, movement = self.step(batch.inputs, batch.labels, context)
        loss = terms.total(examples=len(self.data), epoch=self.state.epoch)
        report = StepReport.of(self.state.epoch, self.state.step, len(batch.labels), loss, terms, movement)
        check_finite(report, self.trained, self._learning_rate())
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        if self.settings.optimisation.clip is not None:
            self.fabric.clip_gradients(self.step, self.optimizer, max_norm=self.settings.optimisation.clip)
        self.optimizer.step()
        return report

    def _end_epoch(self) -> None:
        state = self.state
        numbers = state.tally.means()
        joint: Any = self.fabric.all_reduce(torch.tensor(list(numbers.values()), dtype=torch.float64))
        means = dict(zip(numbers, joint.tolist(), strict=True))
        report = EpochReport(
            state.epoch, self._learning_rate(), **means, validation_nll=self._validation_nll()
        )
        state.history.epochs.append(report)
        if self.settings.patience is not None and state.history.best_epoch == state.epoch:
            state.remember_best()
        state.schedule.step()
        state.epoch, state.step, state.tally = state.epoch + 1, 0, Tally()

    def _validation_nll(self) -> float | None:
        """The same on every rank, so that all of them stop together."""
        if self.validation is None:
            return None
        seed, device = self.settings.seed, self.fabric.device
        rows = generator_for(seed, Purpose.VALIDATION)
        context = context_for(self.trained, self.data, self.settings.contexts.limit, rows, device)
        reseed(device, derived_seed(seed, Purpose.VALIDATION, self.state.epoch))
        nll = validation_nll(self.trained, self.validation, context, device)
        return float(self.fabric.broadcast(nll))

    def _is_over(self) -> bool:
        patience, history = self.settings.patience, self.state.history
        waited = patience is not None and history.epochs_without_progress() >= patience
        return waited or self.state.epoch >= self.settings.epochs

    def _steps_an_epoch(self) -> int:
        return -(-len(self.data) // self.settings.batch_size)

    def _learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])
