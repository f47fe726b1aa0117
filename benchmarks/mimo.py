"""MIMO, one net that holds an ensemble (Havasi et al. 2021), with the settings of a preset of Fashion-MNIST.

    python benchmarks/mimo.py [--preset paper] [--members 3] [--out runs/mimo] [--data-dir DIR]

`members` images enter LeNet5 side by side, as channels, and it has an answer for each: in training those of
different images, at test of the same one. The images of a batch form groups, so an epoch here is 1 / members
of an epoch of the method: batches and epochs are as many times larger, and each place sees every image as
often as a plain net does. Prints error, NLL, ECE and AUROC by entropy; a killed run goes on where it was.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from totalcal import fit, softmax
from totalcal.types import Draws, PointMass, Predictive
from totalcal_lab.backbones import lenet5
from totalcal_lab.backbones.nets import GREY
from totalcal_lab.grid.building import load_data, training_options
from totalcal_lab.grid.configuration import derived
from totalcal_lab.grid.grid import Grid
from totalcal_lab.grid.judging import judge

CLASSES = 10


class ManyInOne(nn.Module):
    """A net whose first axis of channels and whose columns are `members` times as many."""

    def __init__(self, net: nn.Module, members: int) -> None:
        super().__init__()
        self.net, self.members = net, members

    def forward(self, images: Tensor) -> Tensor:
        """Training: each image has one place, and its logits. Test: the logarithm of the members' mean."""
        if self.training:
            return self._of_groups(images)
        return self.answers(images).log_softmax(-1).logsumexp(0) - math.log(self.members)

    def _of_groups(self, images: Tensor) -> Tensor:
        """A last group that is not full is filled with the first images of the batch."""
        missing = -len(images) % self.members
        filled = torch.cat([images, images[:missing]])
        logits: Tensor = self.net(filled.unflatten(0, (-1, self.members)).flatten(1, 2))
        return logits.unflatten(-1, (self.members, -1)).flatten(0, 1)[: len(images)]

    def answers(self, images: Tensor) -> Tensor:
        """Of every image in all places at once, members × batch × classes."""
        logits: Tensor = self.net(images.repeat(1, self.members, 1, 1))
        return logits.unflatten(-1, (self.members, -1)).movedim(1, 0)


class Members:
    """A predictor whose draws are the answers of the places."""

    def __init__(self, net: ManyInOne) -> None:
        self.net = net.eval()

    @torch.no_grad()
    def predict(
        self, inputs: Tensor, *, draws: Draws = "auto", seed: int = 0, context: object = None
    ) -> Predictive:
        return Predictive(PointMass(self.net.answers(inputs)), members=self.net.members)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs") / "mimo")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    (config,) = Grid("fashion", options.preset, {}).configurations(["softmax"], seeds=1)
    data, members = load_data(config, options.data_dir), options.members
    dropout = config.sections["backbone"]["dropout"]
    net = ManyInOne(lenet5(members * CLASSES, (members, 28, 28), GREY, dropout), members)
    model = softmax(net, CLASSES)
    fit(
        model,
        data.train,
        epochs=members * config.sections["training"]["epochs"],
        batch_size=members * config.sections["training"]["batch_size"],
        seed=derived("training", config.task, "mimo", config.seed),
        **training_options(config),
        checkpoints=options.out / f"{options.preset}_{members}",
    )
    assert isinstance(model.backbone, ManyInOne)
    print(judge(config, Members(model.backbone), data))


if __name__ == "__main__":
    main()
