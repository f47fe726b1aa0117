"""Every model of the registry, small, fresh and trained: what is added there is tested here by itself.

In a process with a simulated device the models are there, and the rows are not.
"""

import copy
import os
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn

from totalcal import MODELS, Batch, Predictor, TuringProcess, train
from totalcal.types import ContextUse

NUM_CLASSES, NUM_FEATURES, NUM_EXAMPLES = 3, 4, 96
DEVICE = torch.device("cpu")
if os.environ.get("TOTALCAL_SIMULATED_DEVICE"):  # `test_devices.py` starts such a process
    from ..simulated.device import set_up

    DEVICE = set_up()


def make_backbone(num_classes: int = NUM_CLASSES) -> nn.Module:
    return nn.Sequential(nn.Linear(NUM_FEATURES, 16), nn.ReLU(), nn.Linear(16, num_classes))


def make_model(name: str, num_classes: int = NUM_CLASSES) -> TuringProcess:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS[name](make_backbone(num_classes).to(DEVICE), num_classes=num_classes)


@cache
def example_data() -> Batch:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(NUM_CLASSES, (NUM_EXAMPLES,), generator=generator)
    centres = 2 * torch.eye(NUM_CLASSES, NUM_FEATURES)
    return Batch(centres[labels] + torch.randn(NUM_EXAMPLES, NUM_FEATURES, generator=generator), labels)


@cache
def _trained(name: str) -> TuringProcess:
    model = make_model(name)
    train(model, *example_data(), epochs=20, batch_size=32, generator=torch.Generator().manual_seed(1))
    return model


@pytest.fixture
def data() -> Batch:
    return example_data()


@pytest.fixture(params=sorted(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(name: str) -> TuringProcess:
    return make_model(name)


@pytest.fixture
def trained(name: str) -> TuringProcess:
    return copy.deepcopy(_trained(name))


@pytest.fixture
def fresh_model() -> Callable[..., TuringProcess]:
    return make_model


@pytest.fixture
def predictor(data: Batch) -> Callable[[TuringProcess], Predictor]:
    """The model as it is judged: with a context only where it cannot do without one."""

    def as_judged(model: TuringProcess) -> Predictor:
        needed = model.context_use is ContextUse.REQUIRED
        return model.given(Batch(data.inputs[:8], data.labels[:8])) if needed else model

    return as_judged
