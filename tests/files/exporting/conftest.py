"""Small models of the family on four nets, each with all that a file may hold."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from torch import Tensor, nn

import totalcal
from totalcal import MODELS, Batch, Gate, Model, Preprocessing, export
from totalcal.decisions import Coverage
from totalcal.nets import mlp
from totalcal.types import ContextUse, Draws

from ...gates import both
from ...nets import lenet5, resnet18

CLASSES = 3


class Encoder(nn.Module):
    """A transformer for pictures: patches, two blocks, the mean of the tokens, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, 4)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.classes = nn.Linear(8, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        tokens: Tensor = self.encoder(self.patches(pictures).flatten(2).transpose(1, 2))
        logits: Tensor = self.classes(tokens.mean(1))
        return logits


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: mlp(4, CLASSES), (4,)),
    "lenet5": (lambda: lenet5(CLASSES, (1, 16, 16), widths=(4, 8, 16), per_image_scaling=True), (1, 16, 16)),
    "resnet18": (lambda: resnet18(CLASSES, width=4, channels=1), (1, 8, 8)),
    "encoder": (Encoder, (1, 8, 8)),
}


def _rows_of(net: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of three classes, which lie apart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    rows = torch.randn(count, *NETS[net][1], generator=generator)
    return 3 * rows + labels.view(-1, *[1] * (rows.dim() - 1)), labels


def _saved_model(model: str, net: str, draws: Draws = 3, whole: bool = True) -> Model:
    """Trained a little; `whole` ones have a memory of their domain and a gate."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = MODELS[model](NETS[net][0](), num_classes=CLASSES)
        rows, labels = _rows_of(net, 120, seed=1)
        preprocessing = Preprocessing.fitted(rows.numpy())
        inputs = preprocessing(rows.numpy())
        totalcal.train(made, inputs, labels, epochs=2)
    needs_context = made.context_use is ContextUse.REQUIRED
    context = Batch(inputs[:8], labels[:8]) if needs_context else None
    saved = Model(made, None, tuple("abc"), preprocessing, context)
    if not whole:
        return saved
    held_out, gate_rows = _rows_of(net, 100, seed=2), _rows_of(net, 100, seed=3)
    fade = 0.05 if model == "softmax" else 0.0
    totalcal.remember(made, (inputs, labels), (preprocessing(held_out[0].numpy()), held_out[1]), fade=fade)
    names = [saved.classes[label] for label in gate_rows[1]]
    gates = (
        Gate.fit(saved, gate_rows[0].numpy(), names, score=score, rule=Coverage(share), draws=draws)
        for score, share in (("unfamiliarity", 0.98), ("entropy", 0.82))
    )
    gate = both(*gates)
    return Model(made, gate, saved.classes, preprocessing, context)


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., Any]:
    return lambda net, count, seed: _rows_of(net, count, seed)[0].numpy()


@pytest.fixture(scope="session")
def saved_model() -> Callable[..., Model]:
    return _saved_model


@pytest.fixture(scope="session")
def exported_mlp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    """An ETP with all that a file may hold, and its .onnx, written once for all workers."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    saved, path = _saved_model("etp", "mlp"), shared / "exported" / "model.onnx"
    with FileLock(shared / "exported.lock"):
        if not path.exists():
            path.parent.mkdir()
            export(saved, path)
    return saved, path
