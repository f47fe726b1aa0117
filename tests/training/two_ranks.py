"""One of two ranks over gloo: a write to a memory, and training runs; results go to files of the rank.

`rank`, `folder` and `port` are set by whoever starts this script, `address` and `hosts` where there are two.
"""

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed, nn

from totalcal import anp, enp, etp, fit, remember, softmax
from totalcal.models.process import TuringProcess
from totalcal.training.options import Hardware

RANKS = 2


def data() -> tuple[Tensor, Tensor]:
    points = torch.randn(70, 2, generator=torch.Generator().manual_seed(1))
    return points, (points > 0).sum(1)


def make_etp(seed: int) -> TuringProcess:
    torch.manual_seed(seed)
    return etp(nn.Linear(2, 3), num_classes=3)


def make_softmax(seed: int) -> TuringProcess:
    torch.manual_seed(seed)
    return softmax(nn.Linear(2, 3), num_classes=3)


def context() -> Tensor:
    """Forty embeddings."""
    return torch.randn(40, 3, generator=torch.Generator().manual_seed(2))


def written(rank: int) -> Tensor:
    """The cells after a write in which every rank holds its half of a context."""
    model, (_, labels) = make_etp(0), data()
    model.absorb(context()[rank::RANKS], labels[:40][rank::RANKS])
    return model.latent.cells


def remembered(memorise: Callable[[TuringProcess, Tensor, Tensor], object]) -> dict[str, Tensor]:
    """A domain memory of 40 rows, 30 held-out ones, and a domain that came later."""
    model, (points, labels) = make_softmax(0), data()
    remember(model, (points[:40], labels[:40]), (points[40:], labels[40:]), batch_size=7)
    memorise(model, points + 50, labels)
    return model.domain.state_dict()


def memorise_share(model: TuringProcess, points: Tensor, labels: Tensor) -> None:
    rank = distributed.get_rank()
    model.memorise(points[rank::RANKS], labels[rank::RANKS])


def run(rank: int, folder: Path) -> None:
    """As a launcher such as torchrun would start it."""
    first, hosts = globals().get("address", "127.0.0.1"), globals().get("hosts", 1)
    addresses = {"MASTER_ADDR": first, "MASTER_PORT": globals()["port"], "TORCHELASTIC_RUN_ID": "test"}
    here = RANKS // hosts
    ranks = {
        "RANK": rank,
        "LOCAL_RANK": rank % here,
        "GROUP_RANK": rank // here,
        "WORLD_SIZE": RANKS,
        "LOCAL_WORLD_SIZE": here,
    }
    os.environ.update({name: str(value) for name, value in (addresses | ranks).items()})
    two = Hardware(accelerator="cpu", devices=here, num_nodes=hosts, strategy="ddp")
    remembering, plain = make_etp(seed=rank), make_softmax(seed=rank)  # ranks start apart: rank 0 counts
    fit(remembering, data(), epochs=2, batch_size=16, hardware=two, checkpoints=folder / "run")
    history = fit(plain, data(), epochs=3, batch_size=16, hardware=two)
    odd = make_softmax(seed=0)
    fit(odd, tuple(part[:45] for part in data()), epochs=2, batch_size=40, hardware=two)
    for rows in (45, 43):  # last batches of 5 and of 3 rows: 2 and 1 for each rank, with and without context
        for make in (enp, anp):
            attending = make(nn.Linear(2, 3), num_classes=3)
            points, labels = data()
            fit(attending, (points[:rows], labels[:rows]), epochs=2, batch_size=40, hardware=two)
    results = {
        "written": written(rank),
        "remembered": remembered(memorise_share),
        "etp": remembering.state_dict(),
        "softmax": plain.state_dict(),
        "odd": odd.state_dict(),
        "losses": [report.loss for report in history.epochs],
    }
    torch.save(results, folder / f"rank-{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(globals()["rank"], Path(globals()["folder"]))
