"""A run to be killed: a channels_last convolutional net with mean-field weights, a memory and a fused Adam.

The folder for its checkpoints and its result is set by whoever starts this script.
"""

from pathlib import Path

import torch
from torch import nn

from totalcal import etp, fit
from totalcal.training.options import Optimisation


def train(folder: Path) -> None:
    noise = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(100, 3, 8, 8, generator=noise), torch.randint(4, (100,), generator=noise)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.Flatten(), nn.Linear(96, 4))
    model = etp(net, num_classes=4)
    history = fit(
        model,
        (inputs, labels),
        epochs=6,
        batch_size=16,
        optimisation=Optimisation(learning_rate=3e-3),
        validation=(inputs[:20], labels[:20]),
        checkpoints=folder,
        checkpoint_steps=1,
    )
    assert not model.backbone[2].weight.is_contiguous()  # the layout that a careless checkpoint would lose
    torch.save({"model": model.state_dict(), "history": history.as_plain()["epochs"]}, folder / "result.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Path(globals()["folder"]))
