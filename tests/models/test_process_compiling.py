"""`torch.compile` of a step and of a prediction: the numbers of the plain calls."""

import shutil
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from totalcal import bnn
from totalcal.models.process import TuringProcess
from totalcal.nets import mlp

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(16) % 3
NEEDS_A_COMPILER = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler"
)
BACKENDS = ["aot_eager", pytest.param("inductor", marks=[pytest.mark.exhaustive, NEEDS_A_COMPILER])]


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def model() -> TuringProcess:
    torch.manual_seed(0)
    return bnn(mlp(8, 3, (16,)), 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_has_the_loss_and_the_gradients_of_a_plain_one(backend: str) -> None:
    process = model()

    def loss() -> Tensor:
        return process(ROWS, LABELS).total(examples=100)

    found = []
    for call in (loss, torch.compile(loss, backend=backend, options=_same_numbers(backend))):
        process.zero_grad()
        torch.manual_seed(1)
        value = call()
        value.backward()
        found.append([value.detach(), *(weight.grad.clone() for weight in process.parameters())])
    for plain, compiled in zip(*found, strict=True):
        assert_close(compiled, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@torch.no_grad()
def test_a_compiled_prediction_by_moments_has_the_probabilities_of_a_plain_one(backend: str) -> None:
    process = model().eval()

    def probabilities(rows: Tensor) -> Tensor:
        return process.predict(rows, draws="moments").probabilities

    compiled = torch.compile(probabilities, backend=backend)
    assert_close(compiled(ROWS), probabilities(ROWS), rtol=0, atol=1e-6)


def _same_numbers(backend: str) -> dict[str, bool] | None:
    """Inductor has random numbers of its own, unless it is told to fall back to torch's."""
    return {"fallback_random": True} if backend == "inductor" else None
