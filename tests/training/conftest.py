"""Small data, a small net, and processes of their own that import torch once for all tests."""

import multiprocessing
import runpy
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from totalcal import etp
from totalcal.models.process import TuringProcess
from totalcal.training.callbacks import Callback
from totalcal.training.history import StepReport

HERE = Path(__file__).parent


class StopAt(Callback):
    """Fails in the middle of a run."""

    def __init__(self, epoch: int, step: int) -> None:
        self.place = (epoch, step)

    def stepped(self, report: StepReport) -> None:
        if (report.epoch, report.step) == self.place:
            raise KeyboardInterrupt


def same(first: nn.Module, second: nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(value, other[name]) for name, value in first.state_dict().items())


@pytest.fixture
def quadrants() -> tuple[Tensor, Tensor]:
    """Points of the plane and how many of their coordinates are positive."""
    points = torch.randn(96, 2, generator=torch.Generator().manual_seed(1))
    return points, (points > 0).sum(1)


@pytest.fixture
def make_etp() -> Callable[..., TuringProcess]:
    """Dropout, mean-field weights and a memory: every kind of randomness there is."""

    def make(seed: int = 0, **options: Any) -> TuringProcess:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
        return etp(net, num_classes=3, **options)

    return make


@pytest.fixture(scope="session")
def start_script() -> Callable[..., BaseProcess]:
    """Run a script of this folder in a process, with some names set; SIGKILL is its `kill()`."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["totalcal.training.fit", "totalcal.models", "lightning_fabric"])

    def start(script: str, **names: Any) -> BaseProcess:
        process = server.Process(
            target=runpy.run_path,
            args=(str(HERE / script),),
            kwargs={"init_globals": names, "run_name": "__main__"},
        )
        process.start()
        return process

    return start
