"""MC dropout (Gal and Ghahramani, 2016): dropout stays on at test, and each pass is a draw of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from totalcal.baselines.baseline import Baseline, Nets
from totalcal.errors import InputError
from totalcal.inputs import Inputs, call, device
from totalcal.scores.external import OutputKind, as_predictive, eval_mode, received_by
from totalcal.types import Predictive

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class MCDropout:
    """Any nn.Module with dropout layers, its output kind stated; everything but dropout is in eval mode."""

    def __init__(self, module: nn.Module, kind: OutputKind) -> None:
        self.module, self.kind = module, kind
        self._dropouts = [part for part in module.modules() if isinstance(part, DROPOUTS)]
        if not any(part.p for part in self._dropouts):
            raise InputError("MC dropout needs a dropout layer with p > 0, but the module has none.")

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, draws: int = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        if draws < 1:
            raise InputError(f"MC dropout needs at least one draw, but {draws} came.")
        rows = received_by(self.module, inputs)
        with eval_mode(self.module), _seeded(generator, device(rows)):
            for part in self._dropouts:
                part.train()
            return as_predictive(torch.stack([call(self.module, rows) for _ in range(draws)]), self.kind)


@contextmanager
def _seeded(generator: torch.Generator | None, where: torch.device) -> Iterator[None]:
    """Dropout knows the global generator only: in this context ours seeds it, afterwards it is as before."""
    if generator is None:
        yield
        return
    with torch.random.fork_rng(devices=[] if where.type == "cpu" else [where]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
        yield


BASELINE = Baseline(Nets.OWN, lambda nets, _: MCDropout(nets[0], "logits"), dropout=0.2, is_joint=False)
"""One net trained with dropout, which stays on; needs no held-out data. A pass has a mask for each row."""
