"""Training what stands behind a finished backbone: its outputs are computed once."""

import torch
from torch import nn

from totalcal.errors import InputError
from totalcal.parts.sampling import stochastic_layers
from totalcal.process import TuringProcess
from totalcal.training.sources import Source, TensorSource


def behind_backbone(model: TuringProcess) -> TuringProcess:
    """The latent and the head of a model, shared with it, as a process on embeddings."""
    if stochastic_layers(model.backbone):
        raise InputError(
            "a frozen backbone has one output an input, but this one draws its weights. "
            'Make the model with layers="none", or train all of it.'
        )
    return TuringProcess(nn.Identity(), model.latent, model.head, model.num_classes, model.weights)


@torch.no_grad()
def embedded(model: TuringProcess, source: Source, device: torch.device) -> TensorSource:
    """The backbone's outputs for all rows, in evaluation mode, held in memory."""
    model.eval()
    rows = [(model.encode(inputs.to(device)).cpu(), labels.cpu()) for inputs, labels in source.batches(256)]
    embeddings, labels = zip(*rows, strict=True)
    return TensorSource(torch.cat(embeddings), torch.cat(labels))
