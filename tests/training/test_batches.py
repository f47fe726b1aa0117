"""The batches that the ranks of a run see."""

import torch

from totalcal.training.batches import epoch_batches
from totalcal.training.options import ADAM, PAPER_CONTEXTS, RunSettings
from totalcal.training.sources import TensorSource


def test_a_short_last_batch_leaves_rows_for_the_loss_on_every_rank() -> None:
    source = TensorSource(torch.randn(45, 2), torch.arange(45) % 3)
    settings = RunSettings(20, 40, 0, ADAM, PAPER_CONTEXTS, None, "32-true")
    for epoch in range(20):
        for rank in range(2):
            for batch, context in epoch_batches(source, settings, epoch, 0, torch.device("cpu"), rank, 2):
                assert context < len(batch.labels)
