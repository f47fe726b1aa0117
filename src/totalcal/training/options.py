"""The choices of a training run, grouped; every one has the value that the paper's authors ran with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Precision = Literal["32-true", "64-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true"]


@dataclass(frozen=True)
class Optimisation:
    """How the free energy is minimised.

    The schedule moves once an epoch. `clip` is the largest norm that the gradient of a step may have.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["cosine", "constant"] = "cosine"
    clip: float | None = None


@dataclass(frozen=True)
class Contexts:
    """Which rows of a batch are its context: the first n, n uniform in [shortest, min(limit, rows)).

    `write` says whether the memory takes them in before the loss is computed (the paper's algorithm) or after
    it (the authors' program).
    """

    shortest: int = 3
    limit: int = 50
    write: Literal["before", "after"] = "before"


@dataclass(frozen=True)
class Hardware:
    """Where a run takes place, in the words of Lightning Fabric; `strategy="ddp"` for several devices."""

    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    strategy: str = "auto"
    precision: Precision = "32-true"
    num_nodes: int = 1

    def launch(self) -> "Fabric":
        """The processes of the run, started."""
        from lightning_fabric import Fabric

        fabric = Fabric(
            accelerator=self.accelerator,
            devices=self.devices,
            strategy=self.strategy,
            precision=self.precision,
            num_nodes=self.num_nodes,
        )
        fabric.launch()
        return fabric


@dataclass(frozen=True)
class Settings:
    """All that makes a run the run it is, on one device or on many."""

    epochs: int
    batch_size: int
    seed: int
    optimisation: Optimisation
    contexts: Contexts
    patience: int | None
    precision: Precision


ADAM = Optimisation()
PAPER_CONTEXTS = Contexts()
ONE_DEVICE = Hardware()
