"""What the external memory holds: its cells, who attends to them, and whom each of them stands for."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from totalcal.data.batches import ArrayData
from totalcal.parts.latents import ExternalMemory
from totalcal.parts.sampling import Noise, Sharing, sampling
from totalcal.process import TuringProcess
from totalcal.types import Predictor

_ROWS = 5_000
_EXAMPLES = 3
_PICTURE_BYTES = 150_000


def memory_arrays(predictor: Predictor, train: ArrayData) -> dict[str, NDArray[Any]]:
    """The arrays of a model with memory, for the first training rows; nothing for the others."""
    if not isinstance(predictor, TuringProcess) or not isinstance(predictor.latent, ExternalMemory):
        return {}
    rows = train.subset(torch.arange(min(_ROWS, len(train))))
    attention = _attention(predictor, predictor.latent, rows)
    arrays = {
        "memory/cells": predictor.latent.cells.numpy(),
        "memory/attention": _by_class(attention, rows.labels, predictor.num_classes).numpy(),
    }
    return arrays | _representatives(attention, rows)


@torch.no_grad()
def _attention(process: TuringProcess, memory: ExternalMemory, rows: ArrayData) -> Tensor:
    """φ of each row over the cells, by mean weights and mean cells: rows × cells."""
    blocks = []
    with sampling(process.backbone, Noise(sharing=Sharing.MEAN)):
        for batch in rows.batches(256):
            embedding = process.backbone(batch.inputs)
            blocks.append(memory.attention_weights(embedding[None], memory.cells[None])[0])
    return torch.cat(blocks)


def _by_class(attention: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean attention of each class, classes × cells; NaN for a class without rows."""
    shares = [attention[labels == label].mean(0) for label in range(num_classes)]
    return torch.stack(shares)


def _representatives(attention: Tensor, rows: ArrayData) -> dict[str, NDArray[Any]]:
    """For each cell the rows that attend to it most, as many as the file has room for."""
    one = rows.inputs[0].numel() * (rows.inputs.element_size() if rows.inputs.dtype == torch.uint8 else 4)
    fitting = min(_EXAMPLES, _PICTURE_BYTES // (one * attention.shape[1]), len(attention))
    if fitting == 0:
        return {}
    places = attention.topk(fitting, dim=0).indices.T  # [cells, examples]
    return {
        "memory/inputs": np.asarray(rows.inputs[places].numpy()),
        "memory/labels": rows.labels[places].numpy(),
    }
