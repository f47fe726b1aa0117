"""Predictions that do not depend on the company a row is in: one set of draws of θ = (w, Z) for all rows."""

import torch

from totalcal.checks import check_embedding, check_inputs
from totalcal.parts.sampling import Noise, Sharing, sampling, stochastic_layers
from totalcal.process import TuringProcess
from totalcal.types import Batch, Predictive


@torch.no_grad()
def predict_alike(
    model: TuringProcess, inputs: torch.Tensor, draws: int = 10, context: Batch | None = None, seed: int = 0
) -> Predictive:
    """`model.predict`, but every row meets the same draws: order and split of batches change nothing.

    The draws are those of the seed. Layers with a law over their weights run once for each draw.
    """
    check_inputs(inputs)
    noise = Noise(torch.Generator(inputs.device).manual_seed(seed), Sharing.SHARED if draws else Sharing.MEAN)
    known = 0 if context is None else len(context.labels)
    rows = inputs if context is None else torch.cat([context.inputs, inputs])
    passes = draws if draws and stochastic_layers(model.backbone) else 1
    with sampling(model.backbone, noise):
        embedding = torch.stack([model.backbone(rows) for _ in range(passes)])  # [passes, rows, classes]
    check_embedding(embedding[0], len(rows), model.num_classes)
    seen = None if context is None else Batch(embedding[:, :known], context.labels)
    targets = embedding[:, known:]
    readout = model.latent.draw(targets, seen, max(draws, 1), noise)
    count = max(len(targets), len(readout))
    return Predictive(model.head.belief(targets.expand(count, -1, -1), readout.expand(count, -1, -1)))
