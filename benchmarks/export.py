"""Exported programs in onnxruntime and in torch (.pt2), against the model itself: one thread, side by side.

    python benchmarks/export.py [--rounds 24]

Each model is an ETP that remembers its domain and predicts by moments. A candidate gets rows as a user has
them and gives all that a prediction says: probabilities, uncertainties, familiarity.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from interleaved import arguments, measured, table
from torch import nn

import totalcal
from totalcal import Model, Preprocessing, export
from totalcal.files.exporting.program import outputs_of
from totalcal.files.predicting.exported import ExportedModel, open_exported
from totalcal.nets import mlp
from totalcal_lab.backbones import lenet5, resnet18

CLASSES, HELD_OUT = 10, 400
CASES = {
    "MLP 20-64-10": (lambda: mlp(20, CLASSES, hidden=(64,)), (20,), 256),
    "LeNet5": (lambda: lenet5(CLASSES), (1, 28, 28), 64),
    "ResNet-18, width 16": (lambda: resnet18(CLASSES, stem="cifar", width=16), (3, 32, 32), 32),
}


def one_thread(path: Path) -> ExportedModel:
    """As `open_exported`, with a session of one thread."""
    opened = open_exported(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = list(opened.description.outputs)
    return ExportedModel(
        opened.description, lambda arrays: dict(zip(names, session.run(None, arrays), strict=True))
    )


def saved_model(net: nn.Module, shape: tuple[int, ...]) -> Model:
    rows, labels = torch.randn(2 * HELD_OUT, *shape), torch.arange(2 * HELD_OUT) % CLASSES
    preprocessing = Preprocessing.fitted(rows.numpy())
    inputs = preprocessing(rows.numpy())
    model = totalcal.etp(net, num_classes=CLASSES)
    totalcal.remember(model, (inputs[:HELD_OUT], labels[:HELD_OUT]), (inputs[HELD_OUT:], labels[HELD_OUT:]))
    return Model(model, preprocessing=preprocessing)


def compared(title: str, saved: Model, rows: np.ndarray, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f"model.{kind}" for kind in ("onnx", "pt2")}
        written = {kind: export(saved, path) for kind, path in files.items()}
        in_onnx, in_torch = one_thread(files["onnx"]), open_exported(files["pt2"])
        sizes = {kind: path.stat().st_size / 1e6 for kind, path in files.items()}
    candidates = {
        "totalcal": lambda: outputs_of(saved.predict(rows), None),
        "onnxruntime": lambda: in_onnx.predict(rows),
        "torch, .pt2": lambda: in_torch.predict(rows),
    }
    print(f"\n## {title}, {len(rows)} rows\n")
    print(table(measured(candidates, rounds), "totalcal"))
    for kind, done in written.items():
        print(
            f"\n.{kind}: {sizes[kind]:.1f} MB, at most {done.largest_difference:.1g} from the model",
            flush=True,
        )


def main() -> None:
    rounds = arguments(__doc__, rounds=24).rounds
    for title, (make, shape, count) in CASES.items():
        saved, rows = saved_model(make(), shape), np.random.default_rng(0).normal(size=(count, *shape))
        compared(title, saved, rows, rounds)


if __name__ == "__main__":
    main()
